"""A language model that says random characters: what does one need to measure engines without a download?

`.venv-full/bin/python -m benchmarks.random_model FOLDER [--vocabulary 150]` writes a small Qwen3 with random
weights, a tokenizer of characters, and `questions.jsonl`. Every token is about as likely as any other and one
of them ends a response, so responses have a geometric law with a mean of `--vocabulary` tokens, as a run's
`--max-response-tokens` cuts it. It learns nothing worth knowing; it takes time as a model does.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from full_runs.tasks.tiny_model import TinyModel, made

QUESTIONS = 4000
POSITIONS = 4096
FIRST_CHARACTER = ord(" ")


def write(folder: Path, sizes: TinyModel, *, vocabulary: int) -> None:
    """Model and tokenizer into `folder`, questions beside them."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()
    words = {"<end>": 0} | {chr(FIRST_CHARACTER + token - 1): token for token in range(1, vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    made(sizes, vocabulary=vocabulary, positions=POSITIONS).save_pretrained(folder)
    asked = [{"prompt": f"{i} + {i + 1} = ?", "answer": str(2 * i + 1)} for i in range(QUESTIONS)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vocabulary", type=int, default=150)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2)
    given = parser.parse_args()
    if not 70 <= given.vocabulary <= 50_000:
        parser.error(f"--vocabulary is {given.vocabulary}: digits and signs need 70, and 50,000 is enough")
    write(given.folder, TinyModel(width=given.width, depth=given.depth), vocabulary=given.vocabulary)


if __name__ == "__main__":
    main()
