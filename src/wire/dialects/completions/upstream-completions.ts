import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import { fitBody } from '../fit/fit-body.ts'
import { forwardedBody } from '../forwarded-body.ts'
import type { UpstreamTask } from '../upstream-task.ts'

/** Text completions. The readers of chat also read their choices, which have a `text` instead of a message. */
export const upstreamCompletions: UpstreamTask = {
  path: '/completions',
  requestBody,
  bounds: answerBounds,
  readData: null,
}

function requestBody(job: ChatJob, offer: Offer, maxTokens: number): string {
  const body = forwardedBody(job, offer)
  // Servers know no other name of the limit at this endpoint.
  body.max_tokens = maxTokens
  body.stream = job.stream
  if (job.stream && offer.endpoint.dialect.streamOptions) body.stream_options = { include_usage: true }
  return JSON.stringify(Array.isArray(body.stop) ? fitBody(body, job, offer, 'chat') : body)
}
