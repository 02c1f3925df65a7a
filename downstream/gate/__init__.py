"""What every tool call passes before it is sent: policy, taint, approval, intent."""

__all__: list[str] = []
