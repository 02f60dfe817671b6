import type { ReasoningPart, Seal } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { isWrappedSeal, readSeal, wrapSeal } from '../seal.ts'

/** The names that OpenRouter gave the formats of seals; clients of chat know them and send the details back. */
const formats: Readonly<Record<Seal['family'], string>> = {
  anthropic: 'anthropic-claude-v1',
  openai: 'openai-responses-v1',
  google: 'google-gemini-v1',
  text: 'unknown',
}

/**
 * Encodes sealed reasoning as an item of `reasoning_details`. With text it is `reasoning.text`, and the seal its
 * `signature`; secret reasoning is `reasoning.encrypted`, and the seal its `data`.
 */
export function reasoningDetail(text: string, seal: Seal, index: number, id?: string): JsonObject {
  const common = { ...(id !== undefined && { id }), format: formats[seal.family], index }
  const carried = wrapSeal(seal, 'anthropic')
  return text === '' && (seal.family !== 'anthropic' || seal.isRedacted)
    ? { type: 'reasoning.encrypted', data: carried, ...common }
    : { type: 'reasoning.text', text, signature: carried, ...common }
}

/** The account of seals that came in the details of a server of chat: only such a server can read them. */
const CHAT_ACCOUNT = 'chat'

/**
 * Reads the items of `reasoning_details` in an answer. Seals of OpenAI and Google that no gateway wrapped go back to
 * servers of chat only.
 */
export function readServerDetails(details: readonly unknown[]): ReasoningPart[] {
  return readReasoningDetails(details, CHAT_ACCOUNT)
}

/**
 * Returns the `reasoning_details` that a server of chat gave, from the parts that a client of another dialect sent
 * back.
 */
export function serverDetails(parts: readonly ReasoningPart[]): JsonObject[] {
  return parts.flatMap(({ text, seal, id }, index) => {
    if (seal === undefined || seal.account !== CHAT_ACCOUNT) return []
    const common = { ...(id !== undefined && { id }), format: formats[seal.family], index }
    const words = text === '' ? [] : [{ type: 'reasoning.text', text, ...common }]
    return [...words, { type: 'reasoning.encrypted', data: seal.data, ...common }]
  })
}

/**
 * Reads the items of `reasoning_details` that a client sends back. Items without text and seal are left out.
 *
 * @param account of the seals that no gateway wrapped
 */
export function readReasoningDetails(details: readonly unknown[], account?: string): ReasoningPart[] {
  const parts: ReasoningPart[] = []
  for (const detail of details) {
    if (!isJsonObject(detail)) continue
    const text = firstText(detail.text, detail.summary)
    const carried = firstText(detail.signature, detail.data)
    const seal = carried === '' ? null : sealOf(carried, detail, account)
    if (text === '' && seal === null) continue
    const id = typeof detail.id === 'string' ? { id: detail.id } : {}
    parts.push({ kind: 'reasoning', text, ...(seal !== null && { seal }), ...id })
  }
  return parts
}

function sealOf(carried: string, { type, format }: JsonObject, account: string | undefined): Seal | null {
  if (isWrappedSeal(carried)) return readSeal(carried, 'anthropic')
  // Unwrapped ones are Anthropic's, or come from a chat server, and then name their format.
  const family = (Object.keys(formats) as Seal['family'][]).find(each => formats[each] === format) ?? 'anthropic'
  if (family === 'text') return null
  const isRedacted = family === 'anthropic' && type === 'reasoning.encrypted'
  // Servers of messages give Anthropic's seals unwrapped too, and those go back to them.
  const tag = account === undefined || family === 'anthropic' ? {} : { account }
  return { family, data: carried, ...tag, ...(isRedacted && { isRedacted }) }
}

function firstText(...values: readonly unknown[]): string {
  for (const value of values) if (typeof value === 'string' && value !== '') return value
  return ''
}
