import type { Task } from '../../base/domain/chat-job.ts'
import { answerBounds } from '../../base/domain/request-bounds.ts'
import { CHAT_COMPLETIONS_PATH, upstreamRequestBody } from './chat/upstream-request.ts'
import { upstreamCompletions } from './completions/upstream-completions.ts'
import { upstreamEmbeddings } from './embeddings/upstream-embeddings.ts'
import { upstreamRerank } from './rerank/upstream-rerank.ts'
import type { UpstreamTask } from './upstream-task.ts'

/** How tasks are asked of servers with OpenAI's API. */
export const upstreamTasks: Readonly<Record<Task, UpstreamTask>> = {
  chat: { path: CHAT_COMPLETIONS_PATH, requestBody: upstreamRequestBody, bounds: answerBounds, readData: null },
  completions: upstreamCompletions,
  embeddings: upstreamEmbeddings,
  rerank: upstreamRerank,
}
