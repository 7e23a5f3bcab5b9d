"""How is TRL's GRPOTrainer set up so that it does what ours does, and nothing that it can leave out?

It leaves out reports, checkpoints, progress bars, logging, shuffling, a reference model, clipping of
gradients, activations computed twice. Its metrics have no switch. https://pypi.org/project/trl/.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any


def letter(token: int) -> str:
    """How a prompt's token is written."""
    return chr(ord("a") + token)


def tokenizer(vocabulary: int, end: int) -> Any:
    """Token i is the i-th letter: no word is part of another, where special ones would cut it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({letter(i): i for i in range(max(vocabulary, end + 1))}))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token=letter(end), pad_token=letter(0))


def quiet() -> str:
    """Silence what they deprecate and announce; the versions that are measured."""
    import torch
    import transformers
    import trl

    warnings.simplefilter("ignore")  # what they and their dependencies deprecate is theirs to mend
    transformers.logging.set_verbosity_error()
    return f"trl {trl.__version__}, transformers {transformers.__version__}, torch {torch.__version__}"


def grpo_trainer(
    trainer_class: Any,
    model: Any,
    *,
    folder: str,
    prompts: Sequence[Sequence[int]],
    columns: dict[str, list[Any]],
    vocabulary: int,
    end: int,
    reward: Callable[..., list[float]],
    rollouts: int,
    group: int,
    most_tokens: int,
    updates: int,
    learning_rate: float,
    callbacks: Sequence[Any] = (),
    rollout_func: Callable[..., dict[str, Any]] | None = None,
) -> Any:
    """A trainer of theirs, on the processor in float32: one update a batch, GRPO's loss, Adam.

    Args:
        trainer_class: `trl.GRPOTrainer`, or one derived from it.
        folder: where it may write.
        columns: of the data set, beside the prompts; the reward is told of them.
        end: token that ends a response.
        reward: as TRL calls it.
        rollouts: in an update.
        group: rollouts that answer one prompt.
        most_tokens: of a response.
        rollout_func: responses come from it, as TRL calls it; None lets TRL sample them.
    """
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOConfig

    arguments = GRPOConfig(
        output_dir=folder, use_cpu=True, max_steps=updates, learning_rate=learning_rate,
        lr_scheduler_type="constant", per_device_train_batch_size=rollouts, num_generations=group,
        gradient_accumulation_steps=1, max_completion_length=most_tokens, loss_type="grpo", epsilon=0.2,
        beta=0.0, weight_decay=0.0, max_grad_norm=0.0, temperature=1.0, optim="adamw_torch_fused", bf16=False,
        gradient_checkpointing=False, shuffle_dataset=False, report_to="none", save_strategy="no",
        logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
        generation_kwargs={"use_cache": True},
    )  # fmt: skip
    trainer = trainer_class(
        model=model,
        reward_funcs=reward,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": [" ".join(map(letter, p)) for p in prompts], **columns}),
        processing_class=tokenizer(vocabulary, end),
        callbacks=list(callbacks),
        rollout_func=rollout_func,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
