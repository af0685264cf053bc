"""Models of heed for other libraries, each of which is optional: import the module of the one that is installed.

    from heed.integrations.langchain import HeedEmbeddings, ChatHeed
    from heed.integrations.chroma import HeedEmbeddingFunction
    from heed.integrations.llama_index import HeedEmbedding
    from heed.integrations.haystack import HeedTextEmbedder, HeedDocumentEmbedder
    import heed.integrations.lm_eval           # lm_eval --model heed --model_args pretrained=MODEL
    from heed.integrations.mteb import HeedEncoder
    from heed.integrations.transformer_lens import HookedTransformer, utils     # in the place of `from transformer_lens import`
    from heed.integrations.widget import AttentionWidget       # what lm.attend(...).show() is in Jupyter
"""
