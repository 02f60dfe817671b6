import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'
import { fileTokens, IMAGE_TOKENS, MESSAGE_TOKENS, REQUEST_TOKENS } from '../chat/prompt-size.ts'
import { isWrappedSeal, SealReader } from '../seal.ts'
import { addedCitationTokens, addedToolTokens, isCited } from './anthropic-tools.ts'

/** Fields of a block that say what it is, or are no part of the prompt. */
const partFields: ReadonlySet<string> = new Set(['type', 'cache_control', 'is_error'])
/** Fields of a block that some templates render, such as the ids of tool calls. */
const identityFields: ReadonlySet<string> = new Set(['id', 'tool_use_id', 'caller'])
/** Fields of a source that are its content. */
const sourceContent: ReadonlySet<string> = new Set(['data', 'url', 'content'])

/** Receives the pieces of a prompt. */
interface PromptVisitor {
  /** Text that the tokenizer counts. */
  text(text: string): void
  /** What is no text but may take tokens, at most one for each byte. */
  bytes(count: number): void
  media(tokens: number): void
  /** Visits a document that the model may cite. */
  cited(visit: () => void): void
  readonly seals: SealReader
}

const nothing = () => {}

/**
 * Returns an upper bound of the prompt's tokens without a tokenizer, as `boundPrompt` does for chat. Reasoning that a
 * seal carries counts with its whole text.
 */
export function boundMessages(body: JsonObject): {
  tokensBound: number
  textBytes: number
  mediaTokensBound: number
  messageCount: number
} {
  let textBytes = 0
  let otherBytes = 0
  let mediaTokensBound = 0
  visitPrompt(body, {
    text: text => {
      textBytes += Buffer.byteLength(text)
    },
    bytes: count => {
      otherBytes += count
    },
    media: tokens => {
      mediaTokensBound += tokens
    },
    cited: visit => {
      const before = textBytes
      visit()
      otherBytes += addedCitationTokens(textBytes - before)
    },
    seals: new SealReader(),
  })
  const messageCount = Array.isArray(body.messages) ? body.messages.length : 0
  const messages = messageCount + (body.system === undefined ? 0 : 1)
  const added = REQUEST_TOKENS + messages * MESSAGE_TOKENS + addedToolTokens(body.tools)
  const tokensBound = textBytes + otherBytes + added + mediaTokensBound
  return { tokensBound, textBytes, mediaTokensBound, messageCount }
}

/** Joins all text of the prompt, including the tools. */
export function messagesPromptText(body: JsonObject): string {
  const texts: string[] = []
  visitPrompt(body, {
    text: text => texts.push(text),
    bytes: nothing,
    media: nothing,
    cited: visit => visit(),
    seals: new SealReader(),
  })
  return texts.join('\n')
}

function visitPrompt(body: JsonObject, visitor: PromptVisitor): void {
  const { system, messages, tools, tool_choice, output_config, thinking, metadata } = body
  visitContent(system, visitor)
  if (Array.isArray(messages)) for (const message of messages) visitMessage(message, visitor)
  for (const rendered of [tools, tool_choice, isJsonObject(output_config) ? output_config.format : undefined]) {
    if (rendered !== undefined && rendered !== null) visitor.text(JSON.stringify(rendered))
  }
  for (const setting of [thinking, metadata]) visitor.bytes(jsonBytes(setting))
}

/** Fields that the gateway does not know reach servers of the same dialect, so they count too. */
function visitMessage(message: JsonObject, visitor: PromptVisitor): void {
  for (const key in message) {
    if (key === 'content') visitContent(message.content, visitor)
    else if (key !== 'role') visitor.text(JSON.stringify(message[key]))
  }
}

function visitContent(content: unknown, visitor: PromptVisitor): void {
  if (typeof content === 'string') visitor.text(content)
  else if (Array.isArray(content)) for (const block of content) visitBlock(block, visitor)
  else if (isJsonObject(content)) visitor.text(JSON.stringify(content))
}

function visitBlock(block: unknown, visitor: PromptVisitor): void {
  if (!isJsonObject(block)) visitor.text(jsonText(block))
  else if (isCited(block)) visitor.cited(() => visitFields(block, visitor))
  else visitFields(block, visitor)
}

function visitFields(block: JsonObject, visitor: PromptVisitor): void {
  for (const key in block) {
    const value = block[key]
    if (value === null || value === undefined || partFields.has(key)) continue
    if (identityFields.has(key)) visitor.bytes(typeof value === 'string' ? Buffer.byteLength(value) : jsonBytes(value))
    else if (key === 'content') visitContent(value, visitor)
    else if (key === 'source') visitSource(block.type, value, visitor)
    else if (key === 'signature' || key === 'data') visitSeal(value, visitor)
    else visitor.text(typeof value === 'string' ? value : JSON.stringify(value))
  }
}

function visitSource(type: unknown, source: unknown, visitor: PromptVisitor): void {
  if (!isJsonObject(source)) {
    visitor.text(jsonText(source))
    return
  }
  if (source.type === 'content') visitContent(source.content, visitor)
  else if (source.type === 'text' && typeof source.data === 'string') visitor.text(source.data)
  else if (type === 'image') visitor.media(IMAGE_TOKENS)
  else if (typeof source.data === 'string') visitor.media(fileTokens(source.data.length))
  else {
    visitor.media(fileTokens(0))
    visitor.bytes(jsonBytes(source.data))
  }
  for (const key in source) if (!sourceContent.has(key)) visitor.bytes(jsonBytes(source[key]))
}

function visitSeal(seal: unknown, visitor: PromptVisitor): void {
  if (typeof seal !== 'string') {
    visitor.bytes(jsonBytes(seal))
    return
  }
  const text = isWrappedSeal(seal) ? visitor.seals.read(seal)?.text : undefined
  if (text !== undefined) visitor.text(text)
  visitor.bytes(Buffer.byteLength(seal))
}

function jsonBytes(value: unknown): number {
  return value === null || value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value))
}
