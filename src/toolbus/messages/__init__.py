"""The frozen records of a transcript, and their encoding."""

from toolbus.messages.codec import decoder as decoder
from toolbus.messages.codec import encode as encode
from toolbus.messages.parts import AudioPart as AudioPart
from toolbus.messages.parts import ImagePart as ImagePart
from toolbus.messages.parts import Part as Part
from toolbus.messages.parts import Resource as Resource
from toolbus.messages.parts import ResourcePart as ResourcePart
from toolbus.messages.parts import TextPart as TextPart
from toolbus.messages.parts import freeze_parts as freeze_parts
from toolbus.messages.parts import join_text as join_text
from toolbus.messages.reasoning import ReasoningPart as ReasoningPart
from toolbus.messages.records import AssistantMessage as AssistantMessage
from toolbus.messages.records import Message as Message
from toolbus.messages.records import SystemMessage as SystemMessage
from toolbus.messages.records import ToolCall as ToolCall
from toolbus.messages.records import ToolMessage as ToolMessage
from toolbus.messages.records import ToolResponse as ToolResponse
from toolbus.messages.records import UserMessage as UserMessage
from toolbus.messages.records import decode as decode
from toolbus.messages.records import decode_msgpack as decode_msgpack
