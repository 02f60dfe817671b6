import { z } from 'zod'
import type { Caller } from '../../base/domain/caller.ts'
import { AUTO_MODEL, type RequestFacts } from '../../base/domain/chat-job.ts'
import { modelNotAllowed, unknownModel } from '../../base/domain/errors.ts'
import { parseMessagesRequest } from '../../wire/dialects/messages/messages-request.ts'
import { messagesRequestSchema } from '../../wire/dialects/messages/messages-request-schema.ts'
import type { CompactionSeal } from '../../wire/dialects/responses/compaction-seal.ts'
import { parseResponsesRequest } from '../../wire/dialects/responses/responses-request.ts'
import { responsesRequestSchema } from '../../wire/dialects/responses/responses-request-schema.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import type { InFlight } from '../in-flight.ts'
import { NodeRequest } from '../node-exchange.ts'
import { type BodyTurns, receiveBody } from '../request-body.ts'

export interface TokenCountsDeps {
  /** Counts the prompt of a request. */
  readonly count: (request: RequestFacts, customerId: string) => Promise<number>
  readonly hasModel: (id: string) => boolean
  /** Pays for the memory of the bodies. */
  readonly inFlight: Pick<InFlight, 'open'>
  readonly bodyTurns: Pick<BodyTurns, 'next'>
  readonly bodyLimitBytes: number
  /** Opens compacted conversations. */
  readonly compactions: CompactionSeal
}

const inputTokens = z.int().nonnegative().describe('The tokens of the prompt, as the gateway counts them.')

const responsesCount = z
  .object({ object: z.literal('response.input_tokens'), input_tokens: inputTokens })
  .meta({ id: 'ResponseInputTokens', examples: [{ object: 'response.input_tokens', input_tokens: 9 }] })

const messagesCount = z
  .object({ input_tokens: inputTokens })
  .meta({ id: 'MessageTokensCount', examples: [{ input_tokens: 9 }] })

/** POST /v1/responses/input_tokens and POST /v1/messages/count_tokens. Both are free and sent to no server. */
export function tokenCounts(deps: TokenCountsDeps): Endpoint[] {
  const common = { method: 'POST', access: 'key', isReport: true } as const
  return [
    {
      ...common,
      path: '/v1/responses/input_tokens',
      doc: {
        operationId: 'countResponseInputTokens',
        tag: 'Chat',
        summary: 'Count the input of a response',
        description: 'Counts the tokens of a request to `POST /v1/responses`, which is not run. Free.',
        body: responsesRequestSchema,
        errors: ['model_not_allowed', 'model_not_found'],
        response: { contentType: 'application/json', schema: responsesCount, description: 'The count.' },
      },
      handle: async context => ({
        object: 'response.input_tokens',
        input_tokens: await countBody(deps, context, body => parseResponsesRequest(body, deps.compactions).facts),
      }),
    },
    {
      ...common,
      path: '/v1/messages/count_tokens',
      doc: {
        operationId: 'countMessageTokens',
        tag: 'Chat',
        summary: 'Count the input of a message',
        description: 'Counts the tokens of a request to `POST /v1/messages`, which is not run. Free.',
        body: messagesRequestSchema.partial({ max_tokens: true }).meta({
          id: 'CountTokensRequest',
          examples: [{ model: 'demo', messages: [{ role: 'user', content: 'Hello!' }] }],
        }),
        errors: ['model_not_allowed', 'model_not_found'],
        response: { contentType: 'application/json', schema: messagesCount, description: 'The count.' },
      },
      handle: async context => ({
        input_tokens: await countBody(deps, context, body => parseMessagesRequest(body, true).facts),
      }),
    },
  ]
}

/** Reads the body of a request and counts its prompt. Rejects with ApiError. */
export async function countBody(
  deps: TokenCountsDeps,
  { caller, request }: EndpointContext,
  parse: (body: Buffer) => RequestFacts,
): Promise<number> {
  const running = deps.inFlight.open(caller.customerId)
  try {
    const body = await receiveBody(new NodeRequest(request.raw), deps.bodyLimitBytes, running.memory)
    await deps.bodyTurns.next(body.length, caller.customerId)
    return await countFor(deps, caller, parse(body))
  } finally {
    running.leave()
  }
}

function countFor({ count, hasModel }: TokenCountsDeps, caller: Caller, facts: RequestFacts): Promise<number> {
  const { model } = facts
  if (model !== AUTO_MODEL) {
    if (!hasModel(model)) throw unknownModel(model)
    const { allowedModels } = caller.access
    if (allowedModels !== null && !allowedModels.has(model)) throw modelNotAllowed(model)
  }
  return count(facts, caller.customerId)
}
