import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import { fitOf } from '../../src/base/domain/chat-job.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'
import { parseChatRequest } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { chatJobOf } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { extraFieldRules } from '../../src/wire/dialects/chat/upstream-request.ts'
import { withStops } from '../../src/wire/dialects/fit/stopped-answer.ts'
import { parseGeminiRequest } from '../../src/wire/dialects/gemini/gemini-request.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { parseResponsesRequest } from '../../src/wire/dialects/responses/responses-request.ts'
import { ask, json, offerFor, streamParts, wholeAnswer } from './ask-server.ts'
import { conversationProblems } from './server-problems.ts'
import { type Client, clients, servers } from './wishes.ts'

// Whatever a client sends, in whatever order, reaches each server within its rules, and the answer has the client's names and
// ids. vendor-schemas.test.ts does the same for schemas.

/** One step of a conversation, which need not make sense. */
type Step =
  | { readonly kind: 'say'; readonly text: string }
  | { readonly kind: 'answer'; readonly text: string; readonly calls: readonly { id: string; name: string }[] }
  | { readonly kind: 'result'; readonly id: string; readonly name: string; readonly text: string }

interface Request {
  readonly steps: readonly Step[]
  readonly tools: readonly string[]
  readonly stops: readonly string[]
  readonly endUser: string
  readonly maxTokens: number
  readonly stream: boolean
}

const schema = { type: 'object', properties: { 'where to': { type: 'string' } }, required: ['where to'] }
const rules = extraFieldRules()

/** The same request of each client. */
const written: Readonly<Record<Client, (request: Request) => ChatJob>> = {
  chat: ({ steps, tools, stops, endUser, maxTokens, stream }) =>
    parseChatRequest(
      json({
        ...{ model: 'm', stream, max_tokens: maxTokens, user: endUser, stop: stops },
        messages: [
          { role: 'user', content: 'go' },
          ...steps.map(step => {
            if (step.kind === 'say') return { role: 'user', content: step.text }
            if (step.kind === 'result') return { role: 'tool', tool_call_id: step.id, content: step.text }
            const calls = step.calls.map(({ id, name }) => ({
              id,
              type: 'function',
              function: { name, arguments: '' },
            }))
            return { role: 'assistant', content: step.text || null, ...(calls.length > 0 && { tool_calls: calls }) }
          }),
        ],
        tools: tools.map(name => ({ type: 'function', function: { name, parameters: schema } })),
      }),
    ),
  responses: ({ steps, tools, endUser, maxTokens, stream }) =>
    chatJobOf(
      parseResponsesRequest(
        json({
          ...{ model: 'm', stream, max_output_tokens: maxTokens, safety_identifier: endUser },
          input: [
            { role: 'user', content: 'go' },
            ...steps.flatMap((step): object[] => {
              if (step.kind === 'say') return [{ role: 'user', content: step.text }]
              if (step.kind === 'result')
                return [{ type: 'function_call_output', call_id: step.id, output: step.text, id: `x_${step.id}` }]
              const calls = step.calls.map(({ id, name }) => ({
                type: 'function_call',
                call_id: id,
                name,
                arguments: '',
              }))
              return step.text === '' ? calls : [{ role: 'assistant', content: step.text }, ...calls]
            }),
          ],
          tools: tools.map(name => ({ type: 'function', name, parameters: schema })),
        }),
      ),
      rules,
    ),
  messages: ({ steps, tools, stops, endUser, maxTokens, stream }) =>
    chatJobOf(
      parseMessagesRequest(
        json({
          ...{ model: 'm', stream, max_tokens: maxTokens, metadata: { user_id: endUser }, stop_sequences: stops },
          messages: [
            { role: 'user', content: 'go' },
            ...steps.map(step => {
              if (step.kind === 'say') return { role: 'user', content: step.text }
              if (step.kind === 'result') {
                const said = { type: 'text', text: step.text }
                return {
                  role: 'user',
                  content: [said, { type: 'tool_result', tool_use_id: step.id, content: step.text }],
                }
              }
              const calls = step.calls.map(({ id, name }) => ({ type: 'tool_use', id, name, input: {} }))
              return { role: 'assistant', content: [{ type: 'text', text: step.text }, ...calls] }
            }),
          ],
          tools: tools.map(name => ({ name, input_schema: schema })),
        }),
      ),
      rules,
    ),
  gemini: ({ steps, tools, stops, maxTokens, stream }) =>
    chatJobOf(
      parseGeminiRequest(
        json({
          contents: [
            { role: 'user', parts: [{ text: 'go' }] },
            ...steps.map(step => {
              if (step.kind === 'say') return { role: 'user', parts: [{ text: step.text }] }
              if (step.kind === 'result') {
                const { id, name } = step
                return { role: 'user', parts: [{ functionResponse: { id, name, response: { output: step.text } } }] }
              }
              const calls = step.calls.map(({ id, name }) => ({ functionCall: { id, name, args: {} } }))
              return { role: 'model', parts: [{ text: step.text }, ...calls] }
            }),
          ],
          tools: [{ functionDeclarations: tools.map(name => ({ name, parametersJsonSchema: schema })) }],
          generationConfig: { maxOutputTokens: maxTokens, stopSequences: stops },
        }),
        { model: 'm', stream },
      ),
      rules,
    ),
}

const name = fc.oneof(fc.constantFrom('look', 'go'), fc.stringMatching(/^[a-z0-9./_ü -]{1,90}$/))
const id = fc.oneof(fc.constantFrom('call_0', 'call_1', 'x:0'), fc.stringMatching(/^[a-zA-Z0-9.:_ -]{1,90}$/))
const words = fc.constantFrom('', ' ', 'x', 'y')
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('say' as const), text: words }),
  fc.record({
    kind: fc.constant('answer' as const),
    text: words,
    calls: fc.array(fc.record({ id, name }), { maxLength: 3 }),
  }),
  fc.record({ kind: fc.constant('result' as const), id, name, text: words }),
)
const request: fc.Arbitrary<Request> = fc.record({
  steps: fc.array(step, { maxLength: 7 }),
  tools: fc.uniqueArray(name, { minLength: 1, maxLength: 3 }),
  stops: fc.uniqueArray(fc.stringMatching(/^[\n a-c]{1,3}$/), { maxLength: 8 }),
  endUser: fc.stringMatching(/^[a-z]{1,200}$/),
  maxTokens: fc.integer({ min: 1, max: 40 }),
  stream: fc.boolean(),
})

/** Every string of a body with its key, outside of schemas. */
function* strings(value: unknown, key = ''): Generator<readonly [key: string, text: string]> {
  if (typeof value === 'string') yield [key, value]
  else if (Array.isArray(value)) for (const each of value) yield* strings(each, key)
  else if (isJsonObject(value))
    for (const [inner, each] of Object.entries(value)) if (!schemaKeys.has(inner)) yield* strings(each, inner)
}
const schemaKeys = new Set(['parameters', 'input_schema', 'parametersJsonSchema', 'inputSchema'])
const toolName = { chat: 64, responses: 64, messages: 128, gemini: 64, converse: 64 }
const stopsTaken = { chat: 4, responses: 0, messages: 8, gemini: 5, converse: 8 }
const stopKeys = new Set(['stop', 'stop_sequences', 'stopSequences'])

it('any conversation reaches each server in order and within its lengths', () => {
  let sent = 0
  fc.assert(
    fc.property(fc.constantFrom(...clients), fc.constantFrom(...servers), request, (client, server, given) => {
      const job = unlessRefused(() => written[client](server === 'responses' ? { ...given, stops: [] } : given))
      if (job === null) return
      sent++
      const { body } = ask(job, offerFor(server))
      expect(conversationProblems[server](body), JSON.stringify(body)).toBe(null)
      const stops: string[] = []
      for (const [key, text] of strings(body)) {
        if (key === 'name') expect(text).toMatch(new RegExp(`^[a-zA-Z0-9_.:-]{1,${toolName[server]}}$`))
        if (key === 'user' || key === 'safety_identifier') expect(text.length).toBeLessThanOrEqual(64)
        if (stopKeys.has(key)) stops.push(text)
      }
      expect(stops.length).toBeLessThanOrEqual(stopsTaken[server])
      if (server === 'messages' || server === 'converse') for (const stop of stops) expect(stop).toMatch(/\S/)
      if (server === 'responses') expect(body.max_output_tokens).toBeGreaterThanOrEqual(16)
      // No sequence is lost: what the server does not get, the gateway cuts at.
      if (server === 'responses' || client === 'responses') return
      const cut = fitOf(job, offerFor(server))?.cutStops ?? []
      expect([...stops, ...cut].sort()).toEqual([...given.stops].sort())
    }),
    { numRuns: 1_500 },
  )
  expect(sent).toBeGreaterThan(1_000)
})

it("any answer has the client's names, ids of its own, and ends at the client's sequences, whole and streamed", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...clients),
      fc.constantFrom(...servers),
      request,
      fc.array(fc.constantFrom('call_0', 'call_1', 'fresh'), { minLength: 1, maxLength: 3 }),
      (client, server, given, ids) => {
        const job = unlessRefused(() => written[client](server === 'responses' ? { ...given, stops: [] } : given))
        if (job === null) return
        const offer = offerFor(server)
        const { body, reader } = ask(job, offer)
        const cut = fitOf(job, offer)?.cutStops ?? []
        const read = cut.length > 0 ? withStops(reader, cut) : reader
        const [tool] = toolsOf(body)
        // Only servers of chat are known to repeat an id in one answer.
        const callIds = server === 'chat' ? ids : [...new Set(ids)]
        const calls = callIds.map(id => ({ id, name: tool!.name, args: { [tool!.property]: 'home' } }))
        const answer = { text: 'zz', calls }
        const earlier = new Set(
          given.steps.flatMap(each => (each.kind === 'answer' ? each.calls.map(call => call.id) : [])),
        )
        const whole = wholeAnswer(server, read, answer).choices[0]!.message.tool_calls as WholeCall[]
        const streamed = streamedCalls(streamParts(server, read, answer))
        for (const list of [whole, streamed]) {
          expect(list.map(call => call.function.name)).toEqual(calls.map(() => given.tools[0]))
          expect(list.map(call => JSON.parse(call.function.arguments))).toEqual(
            calls.map(() => ({ 'where to': 'home' })),
          )
          expect(new Set(list.map(call => call.id)).size).toBe(calls.length)
          for (const call of list) expect(earlier).not.toContain(call.id)
        }
        if (cut.length === 0) return
        const stopped = wholeAnswer(server, read, { text: `zz${cut[0]}zz` }).choices[0]!
        const first = `zz${cut[0]}zz`.slice(0, stopped.message.content!.length)
        expect([stopped.message.content, stopped.finish_reason]).toEqual([first, 'stop'])
        expect(cut).toContain(stopped.stop_reason)
      },
    ),
    { numRuns: 600 },
  )
})

type WholeCall = { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } }

function streamedCalls(parts: ReturnType<typeof streamParts>): WholeCall[] {
  const calls: { id: string; function: { name: string; arguments: string } }[] = []
  for (const part of parts) {
    if (typeof part === 'string') continue
    for (const { index, id, function: called } of part.choices.flatMap(({ delta }) => delta.tool_calls ?? [])) {
      const call = calls[index] ?? { id: '', function: { name: '', arguments: '' } }
      calls[index] = call
      if (id !== undefined) call.id = id
      call.function.name += called?.name ?? ''
      call.function.arguments += called?.arguments ?? ''
    }
  }
  return calls
}

/** The declared tools, with the name of their only property. */
function toolsOf(body: JsonObject): { name: string; property: string }[] {
  const holder =
    isJsonObject(body.toolConfig) && Array.isArray(body.toolConfig.tools) ? body.toolConfig.tools : body.tools
  return (holder as JsonObject[]).flatMap(tool => {
    const inner = [tool.function, tool.toolSpec].find(isJsonObject) ?? tool
    const declared = (inner.functionDeclarations as JsonObject[] | undefined) ?? [inner]
    return declared.map(each => {
      const wrapped = isJsonObject(each.inputSchema) ? each.inputSchema.json : undefined
      const parameters = each.parameters ?? each.input_schema ?? each.parametersJsonSchema ?? wrapped
      return { name: each.name as string, property: Object.keys((parameters as { properties: object }).properties)[0]! }
    })
  })
}

function unlessRefused(write: () => ChatJob): ChatJob | null {
  try {
    return write()
  } catch (error) {
    if (error instanceof ApiError) return null
    throw error
  }
}
