"""A tiny Qwen3 of random weights that reads and writes bytes, with a chat template of Qwen's form."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n"
    "{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    # Thoughts of earlier turns are left out, as Qwen3's template does.
    "{{ m.content.split('</think>')[-1] if m.role == 'assistant' else m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|im_start|>", "<|im_end|>")
VOCABULARY = 256 + len(SPECIAL)


def saved_tokenizer(folder: Path, *, template: str | None = TEMPLATE) -> Path:
    """256 bytes and two special tokens, no merges."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(alphabet)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    whole = PreTrainedTokenizerFast(tokenizer_object=words, eos_token=SPECIAL[1])
    whole.chat_template = template
    whole.save_pretrained(folder)
    return folder


def saved_model(folder: Path, *, positions: int) -> Path:
    """The tokenizer, and a model with as many tokens."""
    from full_runs.tasks.tiny_model import TinyModel, made

    made(TinyModel(), vocabulary=VOCABULARY, positions=positions).save_pretrained(folder)
    return saved_tokenizer(folder)
