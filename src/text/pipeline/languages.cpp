// The languages of multilingual translation models, and the post-processors that add their tokens.
#include "text/pipeline/languages.h"

#include <fmt/format.h>
#include <span>

#include <algorithm>
#include <map>

#include "core/edit_distance.h"
#include "core/strings.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr std::string_view kMbart50Codes =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT "
    "lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL "
    "hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN "
    "th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";
constexpr std::string_view kMbartCodes = kMbart50Codes.substr(0, 25 * 6 - 1);  // 25 of six characters
constexpr std::string_view kM2m100Codes =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha "
    "he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my "
    "ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz "
    "vi wo xh yi yo zh zu";
constexpr std::string_view kNllbCodes =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab "
    "arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn "
    "bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt "
    "bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn "
    "dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn "
    "ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn "
    "hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn "
    "kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn "
    "kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn lao_Laoo "
    "lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn "
    "luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva "
    "nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn "
    "por_Latn prs_Arab pbt_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng "
    "scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn "
    "spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml "
    "tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab "
    "uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans "
    "zho_Hant zul_Latn";

constexpr LanguageRule kRules[] = {
    {"MBartTokenizer", kMbartCodes, "en_XX", false, true, false},
    {"MBart50Tokenizer", kMbart50Codes, "en_XX", true, false, false},
    {kM2m100Class, kM2m100Codes, "en", true, false, true},
    {"NllbTokenizer", kNllbCodes, "eng_Latn", true, false, false},
};

/// Returns the names that a user who wrote `name` may have meant: first those that begin like it.
std::string nearest_names(const Languages& languages, std::string_view name) {
  constexpr std::size_t kShown = 5;
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const Language& language : languages.list) {
    const std::string& other = language.name;
    const auto differ = std::mismatch(other.begin(), other.end(), name.begin(), name.end());
    const auto same = static_cast<std::size_t>(differ.first - other.begin());
    ranked.emplace_back(edit_distance(name, other) + (same >= 2 ? 0 : 1000), other);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return joined(std::span(ranked).first(std::min(kShown, ranked.size())), ", ",
                &std::pair<std::size_t, std::string>::second);
}

const Language& language_named(const Languages& languages, std::string_view name) {
  if (const Language* found = languages.find(name)) return *found;
  throw Error(fmt::format("language: expected one of the model's {} languages, got {} (the nearest: {})",
                          languages.list.size(), name, nearest_names(languages, name)));
}

/// Returns the language that tokenizer_config.json records under `key`.
const Language& language_recorded(const Languages& languages, const TokenizerConfig& config, const char* key,
                                  const std::string& name) {
  if (const Language* found = languages.find(name)) return *found;
  throw Error(fmt::format("{}: {}: expected the code of one of the model's languages, got {}", config.where,
                          key, json_quoted(name)));
}

bool looks_like_code(std::string_view token) {
  const bool letters = std::all_of(token.begin(), token.end(), [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  return letters && token.find('_') != token.npos;
}

}  // namespace

const Language* Languages::find(std::string_view name) const {
  for (const Language& language : list) {
    if (name == language.name || name == language.token) return &language;
  }
  return nullptr;
}

void Tokenizer::set_languages(std::optional<std::string_view> source,
                              std::optional<std::string_view> target) {
  if (source || target)
    throw Error("language: expected a model of several languages, got one whose tokenizer names none");
}

const LanguageRule* language_rule(std::string_view tokenizer_class) {
  if (tokenizer_class.ends_with("Fast")) tokenizer_class.remove_suffix(4);
  for (const LanguageRule& rule : kRules) {
    if (rule.tokenizer_class == tokenizer_class) return &rule;
  }
  return nullptr;
}

std::vector<std::string_view> language_codes(std::string_view codes) {
  std::vector<std::string_view> list;
  while (!codes.empty()) {
    const std::size_t end = std::min(codes.find(' '), codes.size());
    list.push_back(codes.substr(0, end));
    codes.remove_prefix(std::min(end + 1, codes.size()));
  }
  return list;
}

std::string m2m100_token(std::string_view code) { return fmt::format("__{}__", code); }

LanguageMarks::LanguageMarks(Languages languages, const LanguageRule& rule, const TokenizerConfig& config,
                             EndToken end)
    : languages_(std::move(languages)), first_(rule.first && !config.legacy_behaviour), end_(std::move(end)) {
  HEED_ASSERT(!languages_.list.empty(), "a tokenizer with languages");
  languages_.starts_decoder = rule.starts_decoder;
  if (config.source_language) {
    languages_.source = language_recorded(languages_, config, "src_lang", *config.source_language);
  } else {
    const Language* usual = languages_.find(rule.source);
    languages_.source = usual != nullptr ? *usual : languages_.list.front();
  }
  if (config.target_language)
    languages_.target = language_recorded(languages_, config, "tgt_lang", *config.target_language);
  make_processors();
}

void LanguageMarks::choose(std::optional<std::string_view> source, std::optional<std::string_view> target) {
  if (source) languages_.source = language_named(languages_, *source);
  if (target) languages_.target = language_named(languages_, *target);
  make_processors();
}

void LanguageMarks::make_processors() {
  const auto processor = [this](const Language& language) {
    const EndToken mark{language.id, language.token};
    return first_ ? frame_processor({mark}, {end_}) : frame_processor({}, {end_, mark});
  };
  source_ = processor(languages_.source);
  target_ = processor(languages_.target.value_or(languages_.source));
}

std::vector<Language> find_languages(const LanguageRule& rule, const AddedTokens& added,
                                     const TokenTable& vocabulary) {
  std::map<std::int64_t, std::string> found;
  for (const std::string_view code : language_codes(rule.codes)) {
    const std::string name = rule.underscored ? m2m100_token(code) : std::string(code);
    const AddedToken* token = added.find(name);
    const std::int64_t id = token != nullptr ? token->id : vocabulary.find(name);
    if (id >= 0) found.emplace(id, name);
  }
  for (const auto& [id, token] : added.tokens()) {
    if (token.special && looks_like_code(token.content)) found.emplace(id, token.content);
  }
  std::vector<Language> languages;
  for (const auto& [id, token] : found) {
    const bool framed =
        rule.underscored && token.size() > 4 && token.starts_with("__") && token.ends_with("__");
    languages.push_back({framed ? token.substr(2, token.size() - 4) : token, token, id});
  }
  return languages;
}

}  // namespace heed
