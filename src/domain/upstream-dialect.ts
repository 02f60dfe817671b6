import type { ChatJob } from './chat-job.ts'
import type { Dialect } from './conversation.ts'

/**
 * Returns the dialect in which a server is asked: that of the client, which needs no translation, else the first of
 * `speaks` that can express the request. Null if none can: the answer would be wrong without what is missing.
 */
export function dialectAt(speaks: readonly Dialect[], job: ChatJob): Dialect | null {
  const { source } = job
  if (source !== undefined && speaks.includes(source.dialect)) return source.dialect
  return speaks.find(dialect => dialect === 'chat' || isExpressible(job, dialect)) ?? null
}

function isExpressible({ choices, features, hasStop, forward }: ChatJob, dialect: Exclude<Dialect, 'chat'>): boolean {
  if (choices > 1 || forward.logprobs === true || asksForMedia(forward.modalities)) return false
  if (dialect === 'gemini') return true
  if (features.has('audio')) return false
  return dialect === 'messages' || !hasStop
}

function asksForMedia(modalities: unknown): boolean {
  return Array.isArray(modalities) && modalities.some(modality => modality !== 'text')
}
