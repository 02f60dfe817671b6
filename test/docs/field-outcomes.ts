import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { gatewayFields } from '../../src/base/domain/chat-fields.ts'
import { dialects } from '../../src/base/domain/conversation.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { setFields } from '../../src/wire/dialects/messages/messages-request.ts'
import { withoutEffect } from '../../src/wire/dialects/responses/forwarded-body.ts'
import type { ScriptedDialect } from '../harness/scripted-vendors.ts'
import { featureOutcome } from './dialect-outcome.ts'
import { readSdkFields, type SdkField, type SdkType } from './sdk-fields.ts'

/** What becomes of a field of a request: the outcome at each server, in the order of `dialects`. */
export interface FieldOutcome {
  readonly name: string
  readonly outcomes: readonly string[]
}

const clientOf: Readonly<Record<SdkType, ScriptedDialect>> = {
  chat: 'chat',
  responses: 'responses',
  messages: 'messages',
  messagesBeta: 'messages',
  gemini: 'gemini',
}

/** Returns what the gateway does with each field of the SDKs' types, found out by requests with and without it. */
export async function fieldOutcomes(): Promise<Readonly<Record<SdkType, readonly FieldOutcome[]>>> {
  const fields = readSdkFields()
  const found: Partial<Record<SdkType, FieldOutcome[]>> = {}
  for (const [type, list] of Object.entries(fields) as [SdkType, readonly SdkField[]][]) {
    const outcomes: FieldOutcome[] = []
    // One after the other: see wireBody.
    for (const field of list) outcomes.push(await outcomeOf(type, field))
    found[type] = outcomes
  }
  return found as Record<SdkType, FieldOutcome[]>
}

async function outcomeOf(type: SdkType, { name, sample }: SdkField): Promise<FieldOutcome> {
  const client = clientOf[type]
  const context = contexts[client][name] ?? {}
  const given = { ...context, [name]: samples[client][name] ?? sample }
  const [body, without] = [await wireBody(type, given), await wireBody(type, context)]
  const isSdkOnly = body === null || JSON.stringify(body) === JSON.stringify(without)
  const outcomes = dialects.map(server => {
    if (isSdkOnly) return 'SDK'
    const outcome = featureOutcome(client, { name, body, without: without ?? {} }, server)
    return outcome === 'lost' && ownFields[client].has(name) ? 'gateway' : outcome
  })
  return { name, outcomes }
}

/** The fields that the gateway answers itself or sets for each server. */
const ownFields: Readonly<Record<ScriptedDialect, ReadonlySet<string>>> = {
  chat: gatewayFields,
  responses: withoutEffect,
  messages: new Set(setFields),
  gemini: new Set(['maxOutputTokens']),
}

/**
 * The body that an SDK makes of these fields: it keeps some for itself, and Google's moves others. Null if it sends none. Google's
 * SDK takes no other fetch, so that of the process is replaced for this time.
 */
async function wireBody(type: SdkType, fields: JsonObject): Promise<JsonObject | null> {
  if (type !== 'gemini' && type !== 'messagesBeta') return fields
  let body: JsonObject | null = null
  const note = async (_url: unknown, init?: { body?: unknown }) => {
    body = JSON.parse(String(init?.body)) as JsonObject
    return Response.json({})
  }
  if (type === 'messagesBeta') {
    const sdk = new Anthropic({ apiKey: 'key', authToken: null, fetch: note as typeof fetch, maxRetries: 0 })
    await sdk.beta.messages.create({ model: 'm', max_tokens: 64, messages: [], ...fields }).catch(() => {})
    const { model: _, max_tokens: _limit, messages: _messages, ...others } = (body ?? {}) as JsonObject
    return { ...others, ...Object.fromEntries(Object.entries(fields).filter(([name]) => name in (body ?? {}))) }
  }
  const before = globalThis.fetch
  globalThis.fetch = note as typeof fetch
  try {
    // Some fields exist only at Vertex AI, and the SDK refuses them elsewhere.
    for (const options of [{ apiKey: 'key' }, { apiKey: 'key', vertexai: true }]) {
      const request = { model: 'm', contents: 'Hi', config: fields }
      await new GoogleGenAI(options).models.generateContent(request).catch(() => {})
      if (body !== null) return body
    }
    return null
  } finally {
    globalThis.fetch = before
  }
}

const schema = { type: 'object', properties: { at: { type: 'string' } } }
const chatTools = { tools: [{ type: 'function', function: { name: 'look', parameters: schema } }] }
const responsesTools = { tools: [{ type: 'function', name: 'look', parameters: schema, strict: false }] }
const messagesTools = { tools: [{ name: 'look', input_schema: schema }] }
const geminiTools = { tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: schema }] }] }
const format = { type: 'json_schema', schema }

/** Values for fields whose type allows ones without effect. */
const samples: Readonly<Record<ScriptedDialect, JsonObject>> = {
  chat: {
    ...{ function_call: { name: 'look' }, logit_bias: { 5: 1 }, max_completion_tokens: 64, metadata: { a: 'b' }, n: 2 },
    ...{ parallel_tool_calls: false, response_format: { type: 'json_object' }, tool_choice: 'required' },
    stream_options: { include_usage: true },
  },
  responses: {
    ...{ metadata: { a: 'b' }, parallel_tool_calls: false, reasoning: { effort: 'high' }, tool_choice: 'required' },
    ...{ text: { format: { ...format, name: 'place' } }, ...responsesTools },
  },
  messages: {
    ...{ metadata: { user_id: 'u' }, output_config: { effort: 'high' }, output_format: format, ...messagesTools },
    ...{ thinking: { type: 'enabled', budget_tokens: 2_048 }, tool_choice: { type: 'any' } },
    ...{ context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } },
    messages: [{ role: 'user', content: 'Another.' }],
  },
  gemini: {
    ...{ candidateCount: 2, labels: { a: 'b' }, responseMimeType: 'application/json', responseModalities: ['AUDIO'] },
    ...{
      responseSchema: { type: 'OBJECT', properties: {} },
      responseJsonSchema: schema,
      systemInstruction: 'Be brief.',
    },
    ...{
      thinkingConfig: { thinkingLevel: 'HIGH' },
      speechConfig: { languageCode: 'en-US' },
      topP: 0.5,
      ...geminiTools,
    },
    ...{ safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }], serviceTier: 'priority' },
    ...{ toolConfig: { functionCallingConfig: { mode: 'ANY' } }, imageConfig: { aspectRatio: '1:1' } },
    ...{
      mediaResolution: 'MEDIA_RESOLUTION_LOW',
      routingConfig: { autoMode: {} },
      modelArmorConfig: { promptTemplateName: 'x' },
    },
    ...{ audioTranscriptionConfig: { languageCodes: ['en'] } },
  },
}

const json = { responseMimeType: 'application/json' }

/** What a request needs besides, so that a field has an effect. */
const contexts: Readonly<Record<ScriptedDialect, Readonly<Record<string, JsonObject>>>> = {
  chat: {
    function_call: { functions: [{ name: 'look', parameters: schema }] },
    ...{ metadata: { store: true }, parallel_tool_calls: chatTools, tool_choice: chatTools },
  },
  responses: { parallel_tool_calls: responsesTools, tool_choice: responsesTools },
  messages: { tool_choice: messagesTools },
  gemini: {
    responseSchema: json,
    responseJsonSchema: json,
    toolConfig: geminiTools,
    logprobs: { responseLogprobs: true },
  },
}

const sections: readonly (readonly [type: SdkType, title: string, sdk: string, about: string])[] = [
  ['chat', 'Chat completions', 'openai', '`chat.completions.create`'],
  ['responses', 'Responses', 'openai', '`responses.create`'],
  ['messages', 'Messages', '@anthropic-ai/sdk', '`messages.create`'],
  [
    'messagesBeta',
    'Messages of betas',
    '@anthropic-ai/sdk',
    '`beta.messages.create`: the fields that `messages.create` lacks',
  ],
  ['gemini', 'Gemini', '@google/genai', '`config` of `models.generateContent`'],
]

/**
 * Returns docs/fields.md.
 *
 * @param versionOf returns the version of a package
 */
export async function fieldsPage(versionOf: (sdk: string) => string): Promise<string> {
  const found = await fieldOutcomes()
  const stable = new Set(found.messages.map(({ name }) => name))
  const tables = sections.map(([type, title, sdk, about]) => {
    const rows = found[type].filter(({ name }) => type !== 'messagesBeta' || !stable.has(name))
    const cells = [['field', ...dialects], ...rows.map(({ name, outcomes }) => [`\`${name}\``, ...outcomes])]
    return `## ${title}\n\n${about} of \`${sdk}\` ${versionOf(sdk)}.\n\n${tableOf(cells)}`
  })
  return [HEAD, ...tables].join('\n\n').concat('\n')
}

const HEAD = `# Fields of the vendors' SDKs

What the gateway does with each field of a request that the newest SDKs of the vendors know, by the dialect of the server. [What crosses](dialects.md#what-crosses) says more of the parts of
fields. \`npm run clients:fields\` writes this page: it reads the types of the installed SDKs, sends requests with and without each field through the gateway's own parsers, and compares what servers
get. A test fails if an SDK has a field that is not on this page, or if the gateway does something else with one.

- yes: the server gets it, as it is or translated;
- gateway: the gateway reads it or sets it for each server;
- dropped: the server does not get it, and \`x-switchyard-dropped-fields\` and the receipt name it;
- excluded: another server must serve the request;
- refused: 400;
- SDK: the SDK keeps it for itself, or sends it as a header.`

function tableOf(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  const line = (row: readonly string[]) => `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`
  const [head, ...others] = rows as [readonly string[], ...(readonly string[])[]]
  return [line(head), line(widths.map(width => '-'.repeat(width))), ...others.map(line)].join('\n')
}
