#!/usr/bin/env python3
"""Alters sound models in one way at a time, runs `heed doctor` on each, and writes a table of what is found.

usage: doctor-cases.py HEED [--llama FOLDER]      (in the repository; only Python's own library)
FOLDER is a trained Llama with more query heads than key heads in f32, such as stories260K of llama2.c in the
layout of Hugging Face; without it, its cases are left out. The exit status is 1 if a sound model is reported.
"""
import argparse, json, os, shutil, struct, subprocess, tempfile

PLAY = """ROMEO:
But, soft! what light through yonder window breaks?
It is the east, and Juliet is the sun.
Arise, fair sun, and kill the envious moon,
Who is already sick and pale with grief,
That thou her maid art far more fair than she.
"""
STORY = ("Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she "
         "saw a big, red ball. She wanted to play with it, but it was too high. Lily's mom said, \"Lily, let's go to "
         "the park.\" Lily was sad and didn't know what to do. She said, \"I want to play with your ball, but I can't "
         "find it.\" Lily was very happy and they played with the ball all day.\n")
ENGLISH = "The black cat drinks milk.\nShe gave him a red car.\nI have never been to Paris.\nThe dog sleeps near the door.\n"
FRENCH = "Le chat noir boit du lait.\nElle lui a donné une voiture rouge.\nJe ne suis jamais allé à Paris.\nLe chien dort près de la porte.\n"


class Copy:
    """A copy of a model's folder that a case alters."""

    def __init__(self, source, folder):
        self.folder = shutil.copytree(source, folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def json(self, name, change):
        value = json.load(open(self.path(name))) if os.path.exists(self.path(name)) else {}
        change(value)
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        json.dump(value, open(self.path(name), 'w'))

    def set(self, name, **members):
        self.json(name, lambda value: value.update(members))

    def tensors(self, change):
        """change(tensors): name to [dtype, shape, bytes]."""
        data = open(self.path('model.safetensors'), 'rb').read()
        size = struct.unpack('<Q', data[:8])[0]
        header, body = json.loads(data[8:8 + size]), data[8 + size:]
        header.pop('__metadata__', None)
        tensors = {n: [t['dtype'], t['shape'], body[slice(*t['data_offsets'])]] for n, t in header.items()}
        change(tensors)
        header, parts, at = {}, [], 0
        for name, (dtype, shape, content) in tensors.items():
            header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + len(content)]}
            parts.append(content)
            at += len(content)
        head = json.dumps(header).encode()
        head += b' ' * (-len(head) % 8)
        with open(self.path('model.safetensors'), 'wb') as file:
            file.write(struct.pack('<Q', len(head)) + head + b''.join(parts))


def rows_of(tensor):
    width = len(tensor[2]) // tensor[1][0]
    return [tensor[2][i * width:(i + 1) * width] for i in range(tensor[1][0])]


def on(suffix, change):
    """A change of every tensor whose name ends so: change(rows) to rows."""
    def apply(copy):
        def each(tensors):
            names = [n for n in tensors if n.endswith(suffix)]
            assert names, suffix
            for n in names:
                tensors[n][2] = b''.join(change(rows_of(tensors[n])))
        copy.tensors(each)
    return apply


def exchange(one, other):
    def apply(copy):
        def each(tensors):
            for n in [n for n in tensors if one in n]:
                m = n.replace(one, other)
                tensors[n], tensors[m] = tensors[m], tensors[n]
        copy.tensors(each)
    return apply


def elements(row, count):
    size = len(row) // count
    return [row[i * size:(i + 1) * size] for i in range(count)]


def transposed(rows):
    cells = [elements(row, len(rows)) for row in rows]
    return [b''.join(column) for column in zip(*cells)]


def rolled(count):
    return lambda rows: rows[-count:] + rows[:-count]


def interleaved(head_dim):
    def change(rows):
        half, out = head_dim // 2, []
        for h in range(0, len(rows), head_dim):
            out += [rows[h + (i % 2) * half + i // 2] for i in range(head_dim)]
        return out
    return change


def swapped_columns(row):
    third = len(row) // 3
    return row[third:2 * third] + row[:third] + row[2 * third:]


def zeros(rows):
    return [bytes(len(row)) for row in rows]


def relabel(copy):
    def each(tensors):
        for t in tensors.values():
            t[0] = 'F16'
    copy.tensors(each)


def one_nan(copy):
    def each(tensors):
        t = tensors['transformer.h.1.mlp.c_fc.weight']
        t[2] = b'\xc0\x7f' + t[2][2:]
    copy.tensors(each)


def settings(name, **members):
    return lambda copy: copy.set(name, **members)


def both_settings(**members):
    def apply(copy):
        copy.set('config.json', **members)
        copy.set('generation_config.json', **members)
    return apply


def shifted_tokens(copy):
    def change(value):
        for token in value['added_tokens']:
            token['id'] += 1
        value['model']['vocab'] = {t: i + 1 for t, i in value['model']['vocab'].items()}
    copy.json('tokenizer.json', change)


def normalizer(value):
    return lambda copy: copy.json('tokenizer.json', lambda json: json.update(normalizer=value))


def untied(copy):
    def each(tensors):
        t = tensors['model.embed_tokens.weight']
        tensors['lm_head.weight'] = [t[0], t[1], b''.join(reversed(rows_of(t)))]
    copy.tensors(each)


def template(text):
    return settings('tokenizer_config.json', chat_template=text)


def turn_tokens(copy):
    """A template of Llama 2 in a model whose tokenizer has tokens of ChatML (here in place of an ordinary one)."""
    def change(value):
        token = max(value['model']['vocab'], key=value['model']['vocab'].get)
        value['model']['vocab']['<|im_start|>'] = index = value['model']['vocab'].pop(token)
        value['model']['merges'] = [m for m in value['model']['merges']
                                    if (m if isinstance(m, str) else ' '.join(m)).replace(' ', '') != token]
        value['added_tokens'].append({'id': index, 'content': '<|im_start|>', 'single_word': False, 'lstrip': False,
                                      'rstrip': False, 'normalized': False, 'special': True})
    copy.json('tokenizer.json', change)
    template("{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}")(copy)


def pooling(mode, said):
    def apply(copy):
        module = lambda i, path, kind: {'idx': i, 'name': str(i), 'path': path,
                                        'type': 'sentence_transformers.models.' + kind}
        json.dump([module(0, '', 'Transformer'), module(1, '1_Pooling', 'Pooling')], open(copy.path('modules.json'), 'w'))
        copy.set('1_Pooling/config.json', word_embedding_dimension=256, pooling_mode_cls_token=mode == 'cls',
                 pooling_mode_mean_tokens=mode == 'mean')
        open(copy.path('README.md'), 'w').write(
            "(1): Pooling({'pooling_mode_cls_token': %s, 'pooling_mode_mean_tokens': %s})" % (said == 'cls', said == 'mean'))
    return apply


def no_change(copy):
    pass


SHOUT = "{% for m in messages %}{{ shout(m['content']) }}{% endfor %}"
WITH_IM = "{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}"
# name, model, change, how it is run ("", "text", "loss": a text and the sound model's loss), the check and words of it
CASES = [
    ('layers exchanged', 'play', lambda c: (exchange('.h.0.', '.h.2.')(c)), 'text', 'lengths', 'would lose'),
    ('queries and keys exchanged', 'play', on('attn.c_attn.weight', lambda rows: [swapped_columns(r) for r in rows]), 'text', 'lengths', 'would lose'),
    ('output projections transposed', 'play', on('attn.c_proj.weight', transposed), 'loss', 'lengths', 'expected a loss'),
    ('embedding one row off', 'play', on('wte.weight', rolled(1)), 'text', 'lengths', 'would lose'),
    ('position embedding of zeros', 'play', on('wpe.weight', zeros), '', 'order', 'depends on positions'),
    ('activation relu for gelu', 'play', settings('config.json', activation_function='relu'), 'loss', 'lengths', 'expected a loss'),
    ('half as many heads, twice as large', 'play', settings('config.json', n_head=3), 'loss', 'lengths', 'expected a loss'),
    ('eps of norms 1', 'play', settings('config.json', layer_norm_epsilon=1.0), '', 'config values', 'is large'),
    ('bytes of bf16 labeled f16', 'play', relabel, 'text', 'lengths', 'would lose'),
    ('a weight that is NaN', 'play', one_nan, '', 'finite weights', 'is NaN'),
    ('final norm of zeros', 'play', on('ln_f.weight', zeros), '', 'norm weights', 'ln_f.weight'),
    ('final norm of ones', 'play', on('ln_f.weight', lambda rows: [b'\x80\x3f'] * len(rows)), 'loss', 'lengths', 'expected a loss'),
    ('a misspelled key', 'play', settings('config.json', n_heads_typo=3), '', 'config keys', 'n_heads_typo'),
    ('max_length 1', 'play', settings('generation_config.json', max_length=1), '', 'generation settings', 'no room'),
    ('a template calls an unknown function', 'play', template(SHOUT), '', 'chat template', 'shout'),
    ('rope_theta 10 times as large', 'llama', settings('config.json', rope_parameters={'rope_theta': 100000.0, 'rope_type': 'default'}), 'loss', 'lengths', 'expected a loss'),
    ('key heads rolled by one', 'llama', on('self_attn.k_proj.weight', rolled(8)), 'text', 'lengths', 'would lose'),
    ('rotary pairs interleaved', 'llama', lambda c: (on('self_attn.q_proj.weight', interleaved(8))(c), on('self_attn.k_proj.weight', interleaved(8))(c)), 'text', 'lengths', 'would lose'),
    ('o_proj transposed', 'llama', on('self_attn.o_proj.weight', transposed), 'loss', 'lengths', 'expected a loss'),
    ('embedding one row off (Llama)', 'llama', on('embed_tokens.weight', rolled(1)), 'text', 'lengths', 'would lose'),
    ('gate and up projection exchanged', 'llama', exchange('gate_proj', 'up_proj'), 'loss', 'lengths', 'expected a loss'),
    ('tied, with two matrices in the file', 'llama', untied, '', 'tied weights', 'tie_word_embeddings is true'),
    ('all ids of the tokenizer one higher', 'llama', shifted_tokens, '', 'special ids', ''),
    ('end token an ordinary word', 'llama', settings('generation_config.json', eos_token_id=300), '', 'special ids', 'eos_token_id 300'),
    ('[INST] template, tokenizer of ChatML', 'llama', turn_tokens, '', 'chat template', '[INST]'),
    ('template of tokens that are missing', 'llama', template(WITH_IM), '', 'chat template', '<|im_start|>'),
    ('scale_embedding false', 'translation', settings('config.json', scale_embedding=False), '', 'order', 'times as large as the embeddings'),
    ('decoder starts with the end token', 'translation', both_settings(decoder_start_token_id=0), '', 'decoder start', 'from 5999'),
    ('decoder start differs between the files', 'translation', settings('generation_config.json', decoder_start_token_id=0), '', 'special ids', 'in generation_config.json'),
    ('decoder starts with a word', 'translation', both_settings(decoder_start_token_id=133), '', 'special ids', 'decoder_start_token_id 133'),
    ('queries and keys of the cross-attention exchanged', 'translation', exchange('encoder_attn.q_proj', 'encoder_attn.k_proj'), 'loss', 'lengths', 'expected a loss'),
    ('do_lower_case against tokenizer.json', 'reviews', settings('tokenizer_config.json', do_lower_case=False), '', 'tokenizer case', 'do_lower_case is false'),
    ('normalizer lost', 'reviews', normalizer(None), '', 'tokenizer case', 'keeps capital letters'),
    ('labels contradict each other', 'reviews', settings('config.json', label2id={'negative': 1, 'positive': 0}), '', 'config values', 'label'),
    ('CLS pooling, mean by the card', 'vectors', pooling('cls', 'mean'), '', 'pooling', 'the card'),
    ('hop_length 200 for 160', 'speech', lambda c: c.json('preprocessor_config.json', lambda v: (v.update(hop_length=200), v.pop('nb_max_frames', 0))), '', 'processor', 'the model reads'),
    ('transcripts start with another token', 'speech', both_settings(decoder_start_token_id=2), '', 'special ids', 'decoder_start_token_id 2'),
    ('pictures of 64 for 32 pixels', 'pictures', settings('preprocessor_config.json', size={'height': 64, 'width': 64}), '', 'processor', 'the model reads'),
]
SOUND = {'play': ('models/shakespeare', no_change), 'translation': ('models/en-fr', no_change),
         'reviews': ('models/reviews', no_change), 'masks': ('models/reviews-mlm', no_change),
         'vectors': ('models/reviews-mlm', pooling('mean', 'mean')), 'pictures': ('models/cifar10', no_change),
         'speech': ('tests/fixtures/speech', no_change)}
TEXTS = {'play': (PLAY, None), 'llama': (STORY, None), 'translation': (ENGLISH, FRENCH)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('heed')
    parser.add_argument('--llama')
    args = parser.parse_args()
    if args.llama:
        SOUND['llama'] = (args.llama, no_change)
    with tempfile.TemporaryDirectory() as root:
        def run(model, change, how, loss=None):
            copy = Copy(SOUND[model][0], tempfile.mkdtemp(dir=root) + '/m')
            change(copy)
            command = [args.heed, 'doctor', copy.folder, '--json', '--quiet']
            if how and model in TEXTS:
                for option, text in zip(('--texts', '--reference'), TEXTS[model]):
                    if text:
                        open(root + '/text' + option, 'w').write(text)
                        command += [option, root + '/text' + option]
            if loss is not None:
                command += ['--expect-loss', '%.4f' % loss]
            done = subprocess.run(command, capture_output=True, text=True)
            shutil.rmtree(copy.folder)
            if not done.stdout:
                return {'loading': {'status': 'failed', 'measurement': done.stderr, 'values': {}}}
            return {c['name']: c for c in json.loads(done.stdout)['checks']}

        losses, alarms = {}, 0
        for model, (_, change) in SOUND.items():
            checks = run(model, change, 'text')
            losses[model] = checks.get('lengths', {}).get('values', {}).get('loss')
            if losses[model] is not None:
                checks = run(model, change, 'loss', losses[model])
            for name, check in checks.items():
                if check['status'] == 'failed' or (check['status'] == 'warning' and name != 'generation settings'):
                    alarms += 1
                    print(f'sound {model}: {check["status"]} {name}: {check["measurement"]}')
        found, count = 0, 0
        print('| altered | in | with | found by | status |\n|---|---|---|---|---|')
        for name, model, change, how, check, words in CASES:
            if model not in SOUND:
                continue
            count += 1
            checks = run(model, lambda c: (SOUND[model][1](c), change(c)), how, losses[model] if how == 'loss' else None)
            got = checks.get(check, {'status': 'skipped', 'measurement': checks.get('loading', {}).get('measurement', '')})
            right = got['status'] in ('warning', 'failed') and words in got['measurement']
            found += right
            with_ = {'': 'the model alone', 'text': 'a text', 'loss': 'a text and its loss'}[how]
            print(f'| {name} | {model} | {with_} | {check if right else "-"} | {got["status"] if right else "not found: " + got["measurement"][:90]} |')
        print(f'\n{found} of {count} found; {alarms} false alarms on {len(SOUND)} sound models')
    return 1 if alarms else 0


raise SystemExit(main())
