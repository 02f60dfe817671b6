import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import type { ChatMessage, ContentPart } from './chat-request-schema.ts'

/** Tokens that templates add to a request and to each message, at most. */
export const REQUEST_TOKENS = 64
export const MESSAGE_TOKENS = 16
/**
 * Tokens that most vision models use for one large image in high detail. If a model uses more, the excess is
 * not billed: docs/money.md. A higher bound would raise every hold and leave less room for the answer.
 */
export const IMAGE_TOKENS = 2_048
const AUDIO_TOKENS_MIN = 64
const FILE_TOKENS_MIN = 2_048
/**
 * One second of audio is about 43 kB of base64 as 16 kHz mono WAV, and 5 kB as MP3 at 32 kbit/s. Models charge
 * up to 32 tokens for it.
 */
const AUDIO_BYTES_PER_TOKEN = 16
const FILE_BYTES_PER_TOKEN = 4

/** The fields besides the messages that every upstream renders into the prompt. */
const promptFields = new Set(['tools', 'functions', 'response_format', 'tool_choice'])
/**
 * Fields that no upstream renders into the prompt. Any other forwarded field, such as vLLM's `documents` and
 * `chat_template_kwargs`, may end up in the prompt, so the bound covers it.
 */
const settings = new Set([
  ...[
    'temperature',
    'top_p',
    'n',
    'stop',
    'seed',
    'user',
    'presence_penalty',
    'frequency_penalty',
    'logit_bias',
    'logprobs',
  ],
  ...['top_logprobs', 'parallel_tool_calls', 'store', 'metadata', 'modalities', 'audio', 'reasoning_effort'],
  ...['verbosity', 'safety_identifier', 'prompt_cache_key', 'top_k', 'min_p', 'repetition_penalty'],
])
/** Fields of a content part that are counted separately. */
const partFields = new Set(['type', 'text', 'refusal', 'image_url', 'input_audio', 'file'])

/**
 * Returns an upper bound of the prompt's tokens without a tokenizer: no tokenizer produces more than one token
 * per byte of UTF-8. Media count flat or by size, never as text.
 *
 * @param forwarded all fields that upstreams receive
 * @returns `textBytes`: the bytes of the text that `promptText` joins; part of the bound
 */
export function boundPrompt(
  messages: readonly ChatMessage[],
  forwarded: JsonObject,
): { tokensBound: number; textBytes: number; mediaTokensBound: number } {
  let textBytes = 0
  let otherBytes = 0
  let mediaTokensBound = 0
  const addText = (text: string) => {
    textBytes += Buffer.byteLength(text)
  }
  for (const message of messages) {
    eachMessageText(message, addText)
    if (!Array.isArray(message.content)) continue
    for (const part of message.content) {
      mediaTokensBound += mediaTokens(part)
      for (const key in part) if (!partFields.has(key)) otherBytes += jsonBytes(part[key])
    }
  }
  for (const key in forwarded) {
    if (key === 'messages' || settings.has(key)) continue
    if (promptFields.has(key)) textBytes += jsonBytes(forwarded[key])
    else otherBytes += jsonBytes(forwarded[key])
  }
  const tokensBound = textBytes + otherBytes + messages.length * MESSAGE_TOKENS + REQUEST_TOKENS + mediaTokensBound
  return { tokensBound, textBytes, mediaTokensBound }
}

/** Joins all text of the prompt, including the tools. */
export function promptText(messages: readonly ChatMessage[], input: JsonObject): string {
  const texts: string[] = []
  for (const message of messages) eachMessageText(message, text => texts.push(text))
  for (const field of promptFields) {
    const value = input[field]
    if (value !== null && value !== undefined) texts.push(JSON.stringify(value))
  }
  return texts.join('\n')
}

function jsonBytes(value: unknown): number {
  return value === null || value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value))
}

/** Uses a callback: as a generator it was the slowest part of parsing, 2 us for one short message. */
function eachMessageText(message: ChatMessage, visit: (text: string) => void): void {
  const { content } = message
  if (typeof content === 'string') visit(content)
  else if (Array.isArray(content)) {
    for (const part of content) {
      if (part.type === 'text') visit(part.text)
      else if (part.type === 'refusal') visit(part.refusal)
    }
  }
  for (const key in message) {
    if (key === 'role' || key === 'content') continue
    const value = message[key]
    if (value !== null && value !== undefined) visit(typeof value === 'string' ? value : JSON.stringify(value))
  }
}

function mediaTokens(part: ContentPart): number {
  if (part.type === 'image_url') return IMAGE_TOKENS
  if (part.type === 'input_audio')
    return AUDIO_TOKENS_MIN + Math.ceil(part.input_audio.data.length / AUDIO_BYTES_PER_TOKEN)
  if (part.type !== 'file' || !isJsonObject(part.file)) return 0
  return fileTokens(typeof part.file.file_data === 'string' ? part.file.file_data.length : 0)
}

/** Returns a bound of the tokens of a file with `base64Length` characters of base64; 0 if the server loads it. */
export function fileTokens(base64Length: number): number {
  return FILE_TOKENS_MIN + Math.ceil(base64Length / FILE_BYTES_PER_TOKEN)
}
