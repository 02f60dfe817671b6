import { isJsonObject, type JsonObject, jsonText } from '../../runtime/json-object.ts'
import { fileTokens, IMAGE_TOKENS, MESSAGE_TOKENS, REQUEST_TOKENS } from '../chat/prompt-size.ts'
import { isWrappedSeal, SealReader } from '../seal.ts'
import { addedCitationTokens, addedToolTokens, isCited } from './anthropic-tools.ts'

/** Fields of a block that say what it is, or are no part of the prompt. */
const partFields: ReadonlySet<string> = new Set(['type', 'cache_control', 'id', 'tool_use_id', 'is_error', 'caller'])

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
 * Returns an upper bound of the prompt's tokens without a tokenizer, as `measurePrompt` does for chat. Reasoning that a
 * seal carries counts with its whole text.
 */
export function measureMessages(body: JsonObject): {
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

function visitPrompt(
  { system, messages, tools, tool_choice, output_config }: JsonObject,
  visitor: PromptVisitor,
): void {
  visitContent(system, visitor)
  if (Array.isArray(messages)) for (const message of messages) visitMessage(message, visitor)
  for (const rendered of [tools, tool_choice, isJsonObject(output_config) ? output_config.format : undefined]) {
    if (rendered !== undefined && rendered !== null) visitor.text(JSON.stringify(rendered))
  }
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
}

function visitBlock(block: unknown, visitor: PromptVisitor): void {
  if (!isJsonObject(block)) return
  if (isCited(block)) visitor.cited(() => visitFields(block, visitor))
  else visitFields(block, visitor)
}

function visitFields(block: JsonObject, visitor: PromptVisitor): void {
  for (const key in block) {
    const value = block[key]
    if (value === null || value === undefined || partFields.has(key)) continue
    if (key === 'content') visitContent(value, visitor)
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
  else visitor.media(fileTokens(typeof source.data === 'string' ? source.data.length : 0))
}

function visitSeal(seal: unknown, visitor: PromptVisitor): void {
  if (typeof seal !== 'string') return
  const text = isWrappedSeal(seal) ? visitor.seals.read(seal)?.text : undefined
  if (text !== undefined) visitor.text(text)
  visitor.bytes(Buffer.byteLength(seal))
}
