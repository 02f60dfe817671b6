import type { ChatJob, Task } from './chat-job.ts'
import type { Dialect } from './conversation.ts'

/** The fields of a request body that an error may name: with the input, and with the limit of the output. */
export interface FieldNames {
  readonly input: string
  readonly limit: string
}

/** Returns the names of fields in the dialect in which the client sent the request. */
export function fieldNames({ task, source }: Pick<ChatJob, 'task' | 'source'>): FieldNames {
  return (source && ofDialects[source.dialect]) ?? ofTasks[task]
}

const limit = 'max_tokens'

const ofTasks: Readonly<Record<Task, FieldNames>> = {
  chat: { input: 'messages', limit },
  completions: { input: 'prompt', limit },
  embeddings: { input: 'input', limit },
  rerank: { input: 'documents', limit },
}

/** Those that differ from chat. */
const ofDialects: Partial<Readonly<Record<Dialect, FieldNames>>> = {
  responses: { input: 'input', limit: 'max_output_tokens' },
  gemini: { input: 'contents', limit: 'maxOutputTokens' },
}
