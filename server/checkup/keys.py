"""Keys of providers: whether a model would be asked without any, which is sent for nothing."""

from collections.abc import Mapping

from downstream.settings import ModelOptions

_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHER_AI_TOKEN"),
    "xai": ("XAI_API_KEY",),
}
"""Where litellm looks for the key of a provider that answers nobody without one; of others nothing is said."""
_FAMILIES = {"claude-": "anthropic", "gpt-": "openai"}
"""Names that litellm takes without their provider."""


def missing_key(model: str, options: ModelOptions, environ: Mapping[str, str]) -> str | None:
    """The variable that would have to hold the key with which this model is asked; None where one is there, or none is
    needed, or nobody can tell."""
    provider, slash, _ = model.partition("/")
    if not slash:
        provider = next((each for family, each in _FAMILIES.items() if model.startswith(family)), "")
    # At another address, which may be on this machine, the settings know better.
    elsewhere = (f"{provider.upper()}_API_BASE", f"{provider.upper()}_BASE_URL")
    if options.api_key is not None or options.api_base is not None or any(map(environ.get, elsewhere)):
        return None
    variables = _KEYS.get(provider, ())
    return None if any(map(environ.get, variables)) else next(iter(variables), None)
