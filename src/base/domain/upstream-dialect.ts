import type { ChatJob } from './chat-job.ts'
import type { Dialect, Part } from './conversation.ts'
import { asksForMedia } from './request-bounds.ts'

/**
 * Returns the dialect in which a server is asked: that of the client, which needs no translation, else the first of
 * `speaks` that can express the request. Null if none can: the answer would be wrong without what is missing. Other tasks than chat
 * are always asked in the form of OpenAI.
 */
export function dialectAt(speaks: readonly Dialect[], job: ChatJob): Dialect | null {
  const { source } = job
  if (job.task !== 'chat') return 'chat'
  if (source !== undefined) {
    if (speaks.includes(source.dialect)) return source.dialect
    if (source.isNativeOnly) return null
  }
  return speaks.find(dialect => dialect === 'chat' || isExpressible(job, dialect)) ?? null
}

function isExpressible(job: ChatJob, dialect: Exclude<Dialect, 'chat'>): boolean {
  const { choices, features, hasStop, forward } = job
  // Several answers, log probabilities and media in answers are translated for chat only.
  if (choices > 1 || forward.logprobs === true || asksForMedia(job)) return false
  // The only other one that takes audio.
  if (dialect === 'gemini') return true
  if (features.has('audio')) return false
  if (dialect === 'converse') return !hasMediaAddress(job)
  // Responses has no stop sequences.
  return dialect === 'messages' || !hasStop
}

/** Whether a message has an image or document by its address instead of its data: Bedrock fetches none. */
function hasMediaAddress({ source, forward }: ChatJob): boolean {
  if (source !== undefined) return source.conversation().turns.some(({ parts }) => parts.some(hasAddress))
  const messages = forward.messages as readonly { readonly content?: unknown }[]
  return messages.some(({ content }) => Array.isArray(content) && content.some(hasChatAddress))
}

function hasAddress(part: Part): boolean {
  if (part.kind === 'tool_result') return part.content.some(hasAddress)
  return (part.kind === 'image' || part.kind === 'document') && 'url' in part.source
}

/** For a content part of a chat request. The data of a file may also be plain base64, which has no colon. */
function hasChatAddress({
  image_url: image,
  file,
}: {
  readonly image_url?: unknown
  readonly file?: unknown
}): boolean {
  const url = memberOf(image, 'url') ?? image
  const data = memberOf(file, 'file_data')
  return isAddress(url) || (isAddress(data) && data.includes(':'))
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}

const isAddress = (url: unknown): url is string => typeof url === 'string' && !/^data:/i.test(url)
