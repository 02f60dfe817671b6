import type { Dialect } from '../../src/base/domain/conversation.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import type { ScriptedDialect } from '../harness/scripted-vendors.ts'

/** A part of a request that a server may not be able to get. */
export interface DialectFeature {
  /** As docs/dialects.md names it. */
  readonly name: string
  /** A request with this part. */
  readonly body: JsonObject
  /** The same request without it. Default: a question. */
  readonly without?: JsonObject
  /** Servers that do so without being asked. */
  readonly alwaysAt?: readonly Dialect[]
}

/** Anthropic's models always obey the schema of an answer. */
const strictServers: readonly Dialect[] = ['messages', 'converse']

const schema = { type: 'object', properties: { at: { type: 'string' } }, required: ['at'], additionalProperties: false }
const png = 'iVBORw0KGgo='
const pdf = 'JVBERi0xLjQ='
const imageUrl = 'https://example.com/sea.png'
const pdfUrl = 'https://example.com/sea.pdf'

const of = (field: string, value: unknown, name = `\`${field}\``): DialectFeature => ({
  name,
  body: { [field]: value },
})

const chatTool = (more: object = {}) => ({ type: 'function', function: { name: 'look', parameters: schema, ...more } })
const chatTools = { tools: [chatTool()] }
const chatCustom = (more: object = {}) => ({ tools: [{ type: 'custom', custom: { name: 'run', ...more } }] })
const lark = { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "a"' } }
const chatSchema = (more: object = {}) => ({
  response_format: { type: 'json_schema', json_schema: { name: 'place', schema, ...more } },
})
const saysChat = (...content: object[]) => ({ messages: [{ role: 'user', content }] })
const chatText = { type: 'text', text: 'Hi' }

const chat: readonly DialectFeature[] = [
  {
    name: 'instructions',
    body: {
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
      ],
    },
  },
  of('temperature', 0.5),
  of('top_p', 0.5),
  of('stop', ['x']),
  of('seed', 5),
  of('presence_penalty', 1),
  of('frequency_penalty', 1),
  of('top_k', 5),
  of('min_p', 0.1, '`min_p` and other settings of local servers'),
  of('logit_bias', { 5: 1 }),
  of('n', 2, '`n` above 1'),
  of('logprobs', true),
  { name: 'generated audio', body: { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } } },
  { name: '`tools`', body: chatTools },
  { name: '`strict` of a tool', body: { tools: [chatTool({ strict: true })] }, without: chatTools },
  { name: '`custom` tools', body: chatCustom() },
  { name: 'the grammar of a `custom` tool', body: chatCustom({ format: lark }), without: chatCustom() },
  { name: '`tool_choice`: `required`', body: { ...chatTools, tool_choice: 'required' }, without: chatTools },
  { name: '`tool_choice`: `none`', body: { ...chatTools, tool_choice: 'none' }, without: chatTools },
  { name: '`parallel_tool_calls`', body: { ...chatTools, parallel_tool_calls: false }, without: chatTools },
  of('response_format', { type: 'json_object' }, '`response_format`: `json_object`'),
  { name: '`response_format`: `json_schema`', body: chatSchema() },
  { name: '`strict` of a schema', body: chatSchema({ strict: true }), without: chatSchema(), alwaysAt: strictServers },
  of('reasoning_effort', 'high'),
  of('verbosity', 'low'),
  of('prompt_cache_key', 'k'),
  of('user', 'u'),
  of('safety_identifier', 'u'),
  of('prediction', { type: 'content', content: 'Hi' }),
  { name: '`metadata` with `store`', body: { metadata: { a: 'b' }, store: true } },
  of('service_tier', 'priority'),
  of('prompt_cache_retention', '24h'),
  of('prompt_cache_options', { ttl: '12h' }),
  of('moderation', { model: 'm' }),
  of('web_search_options', {}),
  { name: 'image as data', body: saysChat({ type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } }) },
  { name: 'image by address', body: saysChat({ type: 'image_url', image_url: { url: imageUrl } }) },
  { name: 'audio', body: saysChat({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }) },
  {
    name: 'document as data',
    body: saysChat({ type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${pdf}` } }),
  },
  { name: 'document by address', body: saysChat({ type: 'file', file: { file_data: pdfUrl } }) },
  {
    name: '`cache_control`',
    body: saysChat({ ...chatText, cache_control: { type: 'ephemeral' } }),
    without: saysChat(chatText),
  },
]

const responsesTool = (more: object = {}) => ({ type: 'function', name: 'look', parameters: schema, ...more })
const responsesTools = { tools: [responsesTool({ strict: false })] }
const responsesCustom = (more: object = {}) => ({ tools: [{ type: 'custom', name: 'run', ...more }] })
const format = (more: object) => ({ text: { format: more } })
const jsonSchema = (more: object = {}) => format({ type: 'json_schema', name: 'place', schema, ...more })
const saysResponses = (...content: object[]) => ({ input: [{ role: 'user', content }] })

const responses: readonly DialectFeature[] = [
  of('instructions', 'Be brief.'),
  of('temperature', 0.5),
  of('top_p', 0.5),
  of('top_logprobs', 2),
  { name: '`tools`', body: responsesTools },
  { name: '`strict` of a tool', body: { tools: [responsesTool({ strict: true })] }, without: responsesTools },
  {
    name: '`namespace`',
    body: { tools: [{ type: 'namespace', name: 'n', description: '', tools: [responsesTool()] }] },
  },
  { name: '`custom` tools', body: responsesCustom() },
  {
    name: 'the grammar of a `custom` tool',
    body: responsesCustom({ format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' } }),
    without: responsesCustom(),
  },
  {
    name: '`tool_search` of the client',
    body: { tools: [{ type: 'tool_search', execution: 'client', parameters: schema, description: 'Finds tools.' }] },
  },
  { name: '`apply_patch`', body: { tools: [{ type: 'apply_patch' }] } },
  {
    name: '`shell` of the client, `local_shell`',
    body: { tools: [{ type: 'shell', environment: { type: 'local' } }] },
  },
  { name: '`computer`, `computer_use_preview`', body: { tools: [{ type: 'computer' }] } },
  {
    name: '`tool_choice` of such a tool',
    body: { tools: [{ type: 'shell' }], tool_choice: { type: 'shell' } },
    without: { tools: [{ type: 'shell' }] },
  },
  { name: '`web_search` and other hosted tools', body: { tools: [{ type: 'web_search' }] } },
  { name: '`tool_choice`: `required`', body: { ...responsesTools, tool_choice: 'required' }, without: responsesTools },
  { name: '`tool_choice`: `none`', body: { ...responsesTools, tool_choice: 'none' }, without: responsesTools },
  {
    name: '`parallel_tool_calls`',
    body: { ...responsesTools, parallel_tool_calls: false },
    without: responsesTools,
  },
  { name: '`text.format`: `json_object`', body: format({ type: 'json_object' }) },
  { name: '`text.format`: `json_schema`', body: jsonSchema() },
  { name: '`strict` of a schema', body: jsonSchema({ strict: true }), without: jsonSchema(), alwaysAt: strictServers },
  { name: '`text.verbosity`', body: { text: { verbosity: 'low' } } },
  { name: '`reasoning.effort`', body: { reasoning: { effort: 'high' } } },
  { name: '`reasoning.summary`', body: { reasoning: { summary: 'auto' } }, alwaysAt: ['chat'] },
  of('prompt_cache_key', 'k'),
  of('safety_identifier', 'u'),
  of('user', 'u'),
  of('truncation', 'auto'),
  of('service_tier', 'priority'),
  of('prompt_cache_retention', '24h'),
  of('prompt_cache_options', { ttl: '12h' }),
  of('moderation', { model: 'm' }),
  {
    name: '`reasoning.mode`',
    body: { reasoning: { effort: 'low', mode: 'pro' } },
    without: { reasoning: { effort: 'low' } },
  },
  of('max_tool_calls', 5),
  { name: 'image as data', body: saysResponses({ type: 'input_image', image_url: `data:image/png;base64,${png}` }) },
  { name: 'image by address', body: saysResponses({ type: 'input_image', image_url: imageUrl }) },
  {
    name: 'document as data',
    body: saysResponses({ type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${pdf}` }),
  },
  { name: 'document by address', body: saysResponses({ type: 'input_file', file_url: pdfUrl }) },
  of('previous_response_id', 'resp_1'),
  of('conversation', 'conv_1'),
  of('prompt', { id: 'pmpt_1' }),
  of('background', true),
  { name: 'uploaded files (`file_id`)', body: saysResponses({ type: 'input_file', file_id: 'file_1' }) },
]

const messagesTool = (more: object = {}) => ({ name: 'look', input_schema: schema, ...more })
const messagesTools = { tools: [messagesTool()] }
const ownTool = (type: string, name: string, more: object = {}) => ({ tools: [{ type, name, ...more }] })
const saysMessages = (...content: object[]) => ({ messages: [{ role: 'user', content }] })
const base64 = (media_type: string, data: string) => ({ type: 'base64', media_type, data })
const textDocument = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'The sea is blue.' } }
const found = { type: 'search_result', source: 'https://a.test', title: 'Sea', content: [chatText] }
const enabled = { citations: { enabled: true } }

const messages: readonly DialectFeature[] = [
  of('system', 'Be brief.'),
  of('temperature', 0.5),
  of('top_p', 0.5),
  of('top_k', 5),
  of('stop_sequences', ['x']),
  { name: '`tools`', body: messagesTools },
  { name: '`strict` of a tool', body: { tools: [messagesTool({ strict: true })] }, without: messagesTools },
  { name: '`bash_...`, `text_editor_...`', body: ownTool('bash_20250124', 'bash') },
  {
    name: '`computer_...`',
    body: ownTool('computer_20251124', 'computer', { display_width_px: 9, display_height_px: 9 }),
  },
  { name: '`memory_...`', body: ownTool('memory_20250818', 'memory') },
  {
    name: '`computer_toolset_...`, `browser_toolset_...`',
    body: { tools: [{ type: 'computer_toolset_20260801' }, { type: 'browser_toolset_20260801' }] },
  },
  { name: '`tool_search_tool_...`', body: ownTool('tool_search_tool_bm25_20251119', 'tool_search_tool_bm25') },
  { name: '`web_search_...` and other tools of servers', body: ownTool('web_search_20250305', 'web_search') },
  { name: '`tool_choice`: `any`', body: { ...messagesTools, tool_choice: { type: 'any' } }, without: messagesTools },
  { name: '`tool_choice`: `none`', body: { ...messagesTools, tool_choice: { type: 'none' } }, without: messagesTools },
  {
    name: '`disable_parallel_tool_use`',
    body: { ...messagesTools, tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    without: { ...messagesTools, tool_choice: { type: 'auto' } },
  },
  { name: '`output_config.format`', body: { output_config: { format: { type: 'json_schema', schema } } } },
  { name: '`output_config.effort`', body: { output_config: { effort: 'high' } } },
  of('thinking', { type: 'enabled', budget_tokens: 2_048 }, '`thinking.budget_tokens`'),
  { name: '`metadata.user_id`', body: { metadata: { user_id: 'u' } } },
  {
    name: 'other keys of `output_config`, `thinking` and `metadata`',
    body: { output_config: { task_budget: { type: 'tokens', total: 20_000 } } },
  },
  {
    name: '`cache_control`',
    body: saysMessages({ ...chatText, cache_control: { type: 'ephemeral' } }),
    without: saysMessages(chatText),
  },
  { name: 'image as data', body: saysMessages({ type: 'image', source: base64('image/png', png) }) },
  { name: 'image by address', body: saysMessages({ type: 'image', source: { type: 'url', url: imageUrl } }) },
  { name: 'document as data', body: saysMessages({ type: 'document', source: base64('application/pdf', pdf) }) },
  { name: 'document by address', body: saysMessages({ type: 'document', source: { type: 'url', url: pdfUrl } }) },
  { name: 'document as text', body: saysMessages(textDocument) },
  { name: '`search_result`', body: saysMessages(found) },
  { name: '`citations` of a document', body: saysMessages({ ...textDocument, ...enabled }) },
  { name: '`citations` of a `search_result`', body: saysMessages({ ...found, ...enabled }) },
  of('context_management', { edits: [{ type: 'clear_tool_uses_20250919' }] }),
  of('service_tier', 'auto'),
  of('speed', 'fast'),
  of('inference_geo', 'us'),
  of('fallbacks', [{ model: 'm' }]),
  of('mcp_servers', [{ type: 'url', url: 'https://a.test', name: 'm' }]),
  of('container', 'c_1'),
  {
    name: 'uploaded files (`file_id`)',
    body: saysMessages({ type: 'document', source: { type: 'file', file_id: 'f' } }),
  },
]

const config = (more: JsonObject) => ({ generationConfig: more })
const declarations = { tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: schema }] }] }
const mode = (name: string) => ({ ...declarations, toolConfig: { functionCallingConfig: { mode: name } } })
const saysGemini = (...parts: object[]) => ({ contents: [{ role: 'user', parts }] })
const inline = (mimeType: string, data: string) => saysGemini({ inlineData: { mimeType, data } })
const setting = (field: string, value: unknown): DialectFeature => ({
  name: `\`${field}\``,
  body: config({ [field]: value }),
})

const gemini: readonly DialectFeature[] = [
  { name: '`systemInstruction`', body: { systemInstruction: { parts: [{ text: 'Be brief.' }] } } },
  setting('temperature', 0.5),
  setting('topP', 0.5),
  setting('topK', 5),
  setting('stopSequences', ['x']),
  setting('seed', 5),
  setting('presencePenalty', 1),
  setting('frequencyPenalty', 1),
  { name: '`candidateCount` above 1', body: config({ candidateCount: 2 }) },
  setting('responseLogprobs', true),
  setting('responseModalities', ['AUDIO']),
  { name: '`functionDeclarations`', body: declarations },
  { name: 'mode `ANY`', body: mode('ANY'), without: declarations },
  { name: 'mode `NONE`', body: mode('NONE'), without: declarations },
  { name: '`computerUse` of a browser', body: { tools: [{ computerUse: { environment: 'ENVIRONMENT_BROWSER' } }] } },
  { name: '`googleSearch` and other tools of Google', body: { tools: [{ googleSearch: {} }] } },
  { name: '`responseMimeType`', body: config({ responseMimeType: 'application/json' }) },
  {
    name: '`responseJsonSchema`, `responseSchema`',
    body: config({ responseMimeType: 'application/json', responseJsonSchema: schema }),
  },
  { name: '`thinkingConfig.thinkingLevel`', body: config({ thinkingConfig: { thinkingLevel: 'HIGH' } }) },
  {
    name: '`thinkingConfig.includeThoughts`',
    body: config({ thinkingConfig: { includeThoughts: true } }),
    alwaysAt: ['chat'],
  },
  setting('mediaResolution', 'MEDIA_RESOLUTION_LOW'),
  setting('speechConfig', { languageCode: 'en-US' }),
  of('safetySettings', [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }]),
  of('labels', { a: 'b' }),
  { name: 'image as data', body: inline('image/png', png) },
  { name: 'image by address', body: saysGemini({ fileData: { mimeType: 'image/png', fileUri: imageUrl } }) },
  { name: 'audio', body: inline('audio/wav', 'AAAA') },
  { name: 'document as data', body: inline('application/pdf', pdf) },
  { name: 'document by address', body: saysGemini({ fileData: { mimeType: 'application/pdf', fileUri: pdfUrl } }) },
  { name: 'video', body: inline('video/mp4', 'AAAA') },
  of('cachedContent', 'cachedContents/1'),
]

/** The features of requests of each client dialect, in the order of docs/dialects.md. */
export const dialectFeatures: Readonly<Record<ScriptedDialect, readonly DialectFeature[]>> = {
  chat,
  responses,
  messages,
  gemini,
}
