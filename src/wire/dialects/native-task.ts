import { type ChatJob, fitOf } from '../../base/domain/chat-job.ts'
import type { Dialect } from '../../base/domain/conversation.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { dialectAt } from '../../base/domain/upstream-dialect.ts'
import { droppedFields } from './chat/upstream-request.ts'
import { upstreamConverse } from './converse/upstream-converse.ts'
import { upstreamGemini } from './gemini/upstream-gemini.ts'
import { pricedCaches, unsentFields, upstreamMessages } from './messages/upstream-messages.ts'
import { upstreamResponses } from './responses/upstream-responses.ts'
import { conversationOf, rejectedFields } from './translation/conversation-of.ts'
import { unpricedCacheHints, untranslatableFields } from './translation/untranslatable-fields.ts'
import type { UpstreamTask } from './upstream-task.ts'
import { upstreamTasks } from './upstream-tasks.ts'

const chatTasks: Readonly<Record<Dialect, UpstreamTask>> = {
  chat: upstreamTasks.chat,
  responses: upstreamResponses,
  messages: upstreamMessages,
  gemini: upstreamGemini,
  converse: upstreamConverse,
}

/** Returns how the task of a job is asked of an offer with `speaks`. */
export function nativeTask(job: ChatJob, offer: Offer): UpstreamTask {
  return job.task === 'chat' ? chatTasks[usedDialect(job, offer)] : upstreamTasks[job.task]
}

/** The fields of chat that a conversation has; `n` is 1 wherever one is made. */
const translated: ReadonlySet<string> = new Set([
  ...['messages', 'tools', 'tool_choice', 'functions', 'function_call', 'parallel_tool_calls', 'n'],
  ...['temperature', 'top_p', 'top_k', 'presence_penalty', 'frequency_penalty', 'seed', 'stop', 'verbosity'],
  ...['reasoning_effort', 'thinking', 'response_format', 'prompt_cache_key', 'safety_identifier', 'user'],
])

/**
 * Returns the fields of a request, except the gateway's own, that the server of an offer with `speaks` does not get.
 */
export function nativeDroppedFields(job: ChatJob, offer: Offer): readonly string[] {
  const dialect = usedDialect(job, offer)
  if (dialect === 'chat') return droppedFields(job, offer)
  const { source, forward } = job
  const conversation = conversationOf(job)
  // The own fields of a request in another dialect include what chat cannot express, which this server may get.
  const ownFields = source?.ownFields ?? []
  const atChat = new Set(
    source === undefined ? [] : [...ownFields, ...untranslatableFields(conversation, 'chat').dropped],
  )
  const unpriced =
    dialect === 'messages' || dialect === 'converse' ? unpricedCacheHints(conversation, pricedCaches(offer)) : []
  const fitted = fitOf(job, offer)?.dropped ?? []
  const always = [...job.droppedFields.filter(field => !atChat.has(field)), ...unpriced, ...fitted]
  if (source?.dialect === dialect) {
    return dialect === 'messages' ? [...new Set([...always, ...unsentFields(source.body, offer)])] : always
  }
  const rejected = rejectedFields(offer)
  const sent = Object.keys(forward).filter(field => forward[field] !== null && forward[field] !== false)
  const dropped = sent.filter(field => !translated.has(field) || rejected.has(field))
  return [...new Set([...always, ...ownFields, ...dropped, ...untranslatableFields(conversation, dialect).dropped])]
}

/** Offers that cannot express the job were ruled out before. */
function usedDialect(job: ChatJob, { speaks = [] }: Offer): Dialect {
  return dialectAt(speaks, job) ?? 'chat'
}
