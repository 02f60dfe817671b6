import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'
import { parseChatRequest } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { chatJobOf } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { extraFieldRules } from '../../src/wire/dialects/chat/upstream-request.ts'
import { parseGeminiRequest } from '../../src/wire/dialects/gemini/gemini-request.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { parseResponsesRequest } from '../../src/wire/dialects/responses/responses-request.ts'
import { json } from './ask-server.ts'

export const clients = ['chat', 'responses', 'messages', 'gemini'] as const
export type Client = (typeof clients)[number]
export const servers = ['chat', 'responses', 'messages', 'gemini', 'converse'] as const

export interface Wish {
  readonly tools?: readonly { readonly name: string; readonly schema: unknown; readonly strict?: boolean }[]
  readonly stream?: boolean
  readonly calls?: readonly { readonly id: string; readonly name: string }[]
  readonly endUser?: string
  readonly maxTokens?: number
  readonly output?: JsonObject
  readonly stops?: readonly string[]
}

/** The same wish as a request of each client. */
export const requests: Readonly<Record<Client, (wish: Wish) => ChatJob>> = {
  chat: ({ tools = [], calls = [], endUser, maxTokens = 60, output, stops, stream = false }) =>
    parseChatRequest(
      json({
        model: 'm',
        stream,
        max_tokens: maxTokens,
        messages: [
          { role: 'user', content: 'x' },
          ...calls.flatMap(({ id, name }) => [
            {
              role: 'assistant',
              content: null,
              tool_calls: [{ id, type: 'function', function: { name, arguments: '' } }],
            },
            { role: 'tool', tool_call_id: id, content: 'done' },
          ]),
        ],
        tools: tools.map(({ name, schema, strict = null }) => ({
          type: 'function',
          function: { name, description: null, parameters: schema, strict },
        })),
        ...(stops && { stop: stops }),
        ...(endUser !== undefined && { user: endUser }),
        ...(output && {
          response_format: { type: 'json_schema', json_schema: { name: 'card', strict: true, schema: output } },
        }),
      }),
    ),
  responses: ({ tools = [], calls = [], endUser, maxTokens = 60, output, stream = false }) =>
    chatJobOf(
      parseResponsesRequest(
        json({
          model: 'm',
          stream,
          max_output_tokens: maxTokens,
          input: [
            { role: 'user', content: 'x' },
            ...calls.flatMap(({ id, name }) => [
              { type: 'function_call', call_id: id, name, arguments: '{}' },
              { type: 'function_call_output', call_id: id, output: 'done' },
            ]),
          ],
          tools: tools.map(({ name, schema, strict }) => ({ type: 'function', name, parameters: schema, strict })),
          ...(endUser !== undefined && { safety_identifier: endUser }),
          ...(output && { text: { format: { type: 'json_schema', name: 'card', strict: true, schema: output } } }),
        }),
      ),
      extraFieldRules(),
    ),
  messages: ({ tools = [], calls = [], endUser, maxTokens = 60, output, stops, stream = false }) =>
    chatJobOf(
      parseMessagesRequest(
        json({
          model: 'm',
          stream,
          max_tokens: maxTokens,
          messages: [
            { role: 'user', content: 'x' },
            ...calls.flatMap(({ id, name }) => [
              { role: 'assistant', content: [{ type: 'tool_use', id, name, input: {} }] },
              { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'done' }] },
            ]),
          ],
          tools: tools.map(({ name, schema, strict }) => ({
            name,
            ...(strict && { strict }),
            input_schema: schema ?? { type: 'object' },
            eager_input_streaming: true,
          })),
          ...(stops && { stop_sequences: stops }),
          ...(endUser !== undefined && { metadata: { user_id: endUser } }),
          ...(output && { output_config: { format: { type: 'json_schema', schema: output } } }),
        }),
      ),
      extraFieldRules(),
    ),
  gemini: ({ tools = [], calls = [], maxTokens = 60, output, stops, stream = false }) =>
    chatJobOf(
      parseGeminiRequest(
        json({
          contents: [
            { role: 'user', parts: [{ text: 'x' }] },
            ...calls.flatMap(({ id, name }) => [
              { role: 'model', parts: [{ functionCall: { id, name, args: {} } }] },
              { role: 'user', parts: [{ functionResponse: { id, name, response: { output: 'done' } } }] },
            ]),
          ],
          ...(tools.length > 0 && {
            tools: [
              {
                functionDeclarations: tools.map(({ name, schema }) => ({
                  name,
                  ...(isJsonObject(schema) && { parametersJsonSchema: schema }),
                })),
              },
            ],
          }),
          generationConfig: {
            maxOutputTokens: maxTokens,
            ...(stops && { stopSequences: stops }),
            ...(output && { responseMimeType: 'application/json', responseJsonSchema: output }),
          },
        }),
        { model: 'm', stream },
      ),
      extraFieldRules(),
    ),
}
