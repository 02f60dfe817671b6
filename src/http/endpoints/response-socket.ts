import { ApiError } from '../../base/domain/errors.ts'
import { responseEventSchema } from '../../wire/dialects/responses/response-schema.ts'
import type { Endpoint } from '../endpoint.ts'

/**
 * GET /v1/responses without an upgrade, which is refused. `ResponseSocketServer` accepts the WebSockets of this address.
 */
export function responseSocket(): Endpoint {
  return {
    method: 'GET',
    path: '/v1/responses',
    access: 'key',
    doc: {
      operationId: 'connectResponses',
      tag: 'Chat',
      summary: 'Open a WebSocket for responses',
      description: `Opens a WebSocket, as OpenAI's WebSocket mode and Open Responses describe it. Send \`{"type": "response.create", ...}\` with the fields of \`POST /v1/responses\`. Each is served and charged as that request, streamed: every event is one message.

\`previous_response_id\` continues the last response of this connection with new items only. \`stream_id\` names a lane: lanes run at once, the requests of one lane one after another. \`generate: false\` generates nothing, is free, and can be continued. An error is \`{"type": "error", "status", "error", "headers"}\`; the connection goes on. It ends after 60 minutes.`,
      errors: ['upgrade_required', 'rate_limit_exceeded', 'server_shutdown'],
      response: {
        status: 101,
        contentType: 'application/json',
        schema: responseEventSchema,
        description: 'The WebSocket. Each message of the server is one event.',
      },
    },
    handle({ reply }) {
      reply.headers({ upgrade: 'websocket', connection: 'Upgrade' })
      throw new ApiError('upgrade_required')
    },
  }
}
