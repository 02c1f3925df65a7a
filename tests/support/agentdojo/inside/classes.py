"""What the tools of AgentDojo's suites do, as a careful author would have annotated them.

Which have no effect stands in the policies that CaMeL publishes for AgentDojo; `get_webpage` alone reaches outside.
"""

from typing import Literal

ToolClass = Literal["read", "egress", "write", "destructive"]

_READS = {
    "banking": "get_iban get_balance get_most_recent_transactions get_scheduled_transactions read_file get_user_info",
    "workspace": "get_unread_emails get_sent_emails get_received_emails get_draft_emails search_emails"
    " search_contacts_by_name search_contacts_by_email get_current_day search_calendar_events"
    " get_day_calendar_events search_files_by_filename get_file_by_id list_files search_files",
    "slack": "get_channels read_channel_messages read_inbox get_users_in_channel",
}
_TRAVEL_WRITES = (
    "create_calendar_event cancel_calendar_event reserve_hotel reserve_car_rental reserve_restaurant send_email"
)
_EGRESS = frozenset({"get_webpage"})
_DESTROYS = ("delete_", "cancel_", "remove_", "update_")


def class_of(suite: str, tool: str) -> ToolClass:
    """The class that the tool's annotations give it."""
    if tool in _EGRESS:
        return "egress"
    if tool in _READS[suite].split() if suite in _READS else tool not in _TRAVEL_WRITES.split():
        return "read"
    return "destructive" if tool.startswith(_DESTROYS) else "write"


def annotations(suite: str, tool: str) -> dict[str, bool]:
    """The hints of the tool, as MCP writes them."""
    class_ = class_of(suite, tool)
    return {
        "readOnlyHint": class_ in ("read", "egress"),
        "destructiveHint": class_ == "destructive",
        "idempotentHint": False,
        "openWorldHint": class_ == "egress",
    }
