import { createHash } from 'node:crypto'
import { type AnswerSchemas, type ChatJob, type FitNotes, noteFit } from '../../../base/domain/chat-job.ts'
import type { Dialect } from '../../../base/domain/conversation.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { splitStops } from '../../../base/domain/vendor-counts.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { withoutNullable } from '../nullable-schema.ts'
import { flatToolName } from '../tool-names.ts'
import { fitParameters, fitSchema, withoutNullAtTop } from './fit-schema.ts'
import { fitChatPairs, fitItemPairs, fitMessageTurns, withoutBlankTexts, withoutForeignId } from './fit-turns.ts'
import { fitPropertyNames, type PropertyNames, renameProperties } from './property-names.ts'
import { canBeStrict } from './strict-schema.ts'
import { withDefinitions } from './valid-schema.ts'
import { rulesOf, type VendorRules } from './vendor-rules.ts'

/** Fits the parts of one body, and notes what it changes. */
export class Fit implements FitNotes {
  readonly rules: VendorRules
  /** The fields with other values than those of the client. */
  readonly changed = new Set<string>()
  readonly dropped = new Set<string>()
  /** The client's names of tools, by those that the server gets. */
  readonly names = new Map<string, string>()
  readonly properties = new Map<string, PropertyNames>()
  schemas: AnswerSchemas | undefined
  schemaViolation: string | undefined
  cutStops: readonly string[] = []
  readonly #splitStops: ((given: readonly unknown[]) => ReturnType<typeof splitStops>) | null

  /** @param split returns which stop sequences the server takes; null: all that the client sent, whatever it says */
  constructor(rules: VendorRules, split: ((given: readonly unknown[]) => ReturnType<typeof splitStops>) | null) {
    this.rules = rules
    this.#splitStops = split
  }

  /** Returns the stop sequences that the server takes. The gateway cuts the answer at the others. */
  stops(given: unknown): unknown {
    if (!Array.isArray(given) || this.#splitStops === null) return given
    const { sent, cut } = this.#splitStops(given)
    if (sent === given) return given
    this.cutStops = cut
    this.changed.add('stop')
    return sent.length === 0 ? undefined : sent
  }

  /**
   * Returns the name of a tool for the server: the same in each request, so that it fits the calls of earlier turns.
   */
  toolName(name: unknown): unknown {
    if (typeof name !== 'string' || this.rules.toolName.test(name)) return name
    const sent = sentToolName(name)
    this.names.set(sent, name)
    this.changed.add('tools.name')
    return sent
  }

  /** The name of an answer's schema, which no answer repeats. */
  schemaName(name: string): string {
    if (this.rules.toolName.test(name)) return name
    this.changed.add('response_format')
    return sentToolName(name)
  }

  callId(id: unknown): unknown {
    const { callId } = this.rules
    if (typeof id !== 'string' || callId === null || callId.test(id)) return id
    this.changed.add('tool_call_id')
    return hash(id, 24)
  }

  /** The id of an end user, or a key of a cache. */
  identifier(body: JsonObject, field: string, name = field): void {
    const value = body[field]
    if (typeof value !== 'string' || value.length <= this.rules.identifierCharactersMax) return
    body[field] = hash(value, 64)
    this.changed.add(name)
  }

  /** Returns the parameters of a tool, and whether they stay strict. */
  parameters(schema: unknown, isStrict: boolean, tool: unknown): { parameters: JsonObject; strict: boolean } {
    const { parameters, output, strict } = this.rules
    const plain = this.#named(fitParameters(schema, parameters), tool)
    const staysStrict = isStrict && (strict === null || canBeStrict(plain))
    const fitted = staysStrict ? fitSchema(plain, strict ?? output) : plain
    const isChanged = fitted !== schema && JSON.stringify(fitted) !== JSON.stringify(withProperties(schema))
    if (isChanged) this.changed.add('tools.parameters')
    if (staysStrict !== isStrict) this.changed.add('tools.strict')
    if (isStrict && typeof tool === 'string' && (isChanged || !staysStrict))
      this.#check().tools.set(tool, asJsonSchema(schema))
    return { parameters: fitted, strict: staysStrict }
  }

  #named(parameters: JsonObject, tool: unknown): JsonObject {
    const { propertyName } = this.rules.parameters
    if (propertyName === null) return parameters
    const fitted = fitPropertyNames(parameters, propertyName, sentToolName)
    if (fitted.names !== null && typeof tool === 'string') this.properties.set(tool, fitted.names)
    return fitted.parameters
  }

  /** Of tools with one name, the last is sent: vendors refuse the request for two. */
  unique(tools: readonly unknown[], nameOf: (tool: JsonObject) => unknown): readonly unknown[] {
    if (!this.rules.parameters.isValid) return tools
    const last = new Map(tools.map((tool, at) => [isJsonObject(tool) ? nameOf(tool) : undefined, at]))
    const isSent = (tool: unknown, at: number) => {
      const name = isJsonObject(tool) ? nameOf(tool) : undefined
      return typeof name !== 'string' || last.get(name) === at
    }
    const sent = tools.filter(isSent)
    if (sent.length === tools.length) return tools
    this.changed.add('tools')
    return sent
  }

  /** Returns the schema of an answer, and whether it stays strict. */
  output(schema: unknown, isStrict: boolean): { schema: unknown; strict: boolean } {
    if (!isJsonObject(schema)) return { schema, strict: isStrict }
    const { output, strict } = this.rules
    const top = output.isValid ? withDefinitions(withoutNullAtTop(schema)) : schema
    const plain = fitSchema(top, output)
    const staysStrict = isStrict && (strict === null || canBeStrict(plain))
    const fitted = staysStrict && strict !== null ? fitSchema(plain, strict) : plain
    if (fitted !== schema || staysStrict !== isStrict) {
      this.changed.add('response_format')
      this.checkOutput(schema)
    }
    return { schema: fitted, strict: staysStrict }
  }

  /** Has the answer checked against the client's schema, because the server got another or none. */
  checkOutput(schema: unknown): void {
    this.#check().output = asJsonSchema(schema)
  }

  #check(): AnswerSchemas {
    this.schemas ??= { output: undefined, tools: new Map() }
    return this.schemas
  }

  /** Returns the media type for the server: the type of the bytes if they show it, else the declared one. */
  mediaType(type: unknown, base64: unknown): unknown {
    if (!this.rules.readsMediaTypes || typeof type !== 'string' || typeof base64 !== 'string') return type
    if (!type.startsWith('image/')) return type
    return imageTypeOf(base64) ?? (type === 'image/jpg' ? 'image/jpeg' : type)
  }
}

/** The check of answers knows no `nullable`. */
function asJsonSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(asJsonSchema)
  if (!isJsonObject(schema)) return schema
  // A property may have this name too.
  const level = typeof schema.nullable === 'boolean' ? withoutNullable(schema) : schema
  return Object.fromEntries(Object.entries(level).map(([key, value]) => [key, asJsonSchema(value)]))
}

/** An object without properties says the same as one with none. */
function withProperties(schema: unknown): unknown {
  return {
    ...(isJsonObject(schema) && schema),
    type: 'object',
    properties: (isJsonObject(schema) && schema.properties) || {},
  }
}

const NAME_CHARACTERS_MAX = 64
const HASH_CHARACTERS = 8

/** Every vendor takes these names. The hash keeps apart names that differ only in what is replaced. */
function sentToolName(name: string): string {
  const start = name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, NAME_CHARACTERS_MAX - HASH_CHARACTERS - 2)
  return `${/^[a-zA-Z_]/.test(start) ? '' : '_'}${start}_${hash(name, HASH_CHARACTERS)}`
}

function hash(text: string, digits: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, digits)
}

/** Reads the type of an image from its first bytes. */
function imageTypeOf(base64: string): string | null {
  if (base64.startsWith('/9j/')) return 'image/jpeg'
  if (base64.startsWith('iVBORw0KGgo')) return 'image/png'
  if (base64.startsWith('R0lGOD')) return 'image/gif'
  return base64.startsWith('UklGR') && base64.slice(11, 16) === 'XRUJQ' ? 'image/webp' : null
}

/**
 * Changes the body of one attempt to what the vendor accepts, and remembers the changes. `note` adds to them. Inner
 * objects and lists are copied before they change, because the next attempt needs the client's own.
 */
export function fitBody(
  body: JsonObject,
  job: ChatJob,
  offer: Offer,
  dialect: Dialect,
  note: (fit: Fit) => void = () => {},
): JsonObject {
  // An answer with citations is not cut: they belong to its blocks.
  const split = (given: readonly unknown[]) => splitStops(given, offer.endpoint, dialect)
  const fit = new Fit(rulesOf(offer, dialect), job.source?.isNativeOnly ? null : split)
  walks[dialect](body, fit)
  note(fit)
  noteFit(job, offer.offerId, fit.changed.size + fit.dropped.size > 0 ? fit : null)
  return body
}

/** How the parts of a body are found in each dialect. */
const walks: Readonly<Record<Dialect, (body: JsonObject, fit: Fit) => void>> = {
  chat: fitChat,
  responses: fitResponses,
  messages: fitMessages,
  gemini: fitGemini,
  converse: fitMessages,
}

/** The fields of OpenAI's bodies that name an end user or a cache. */
const identifiers = ['user', 'safety_identifier', 'prompt_cache_key'] as const

function fitChat(body: JsonObject, fit: Fit): void {
  for (const field of identifiers) fit.identifier(body, field)
  fitStops(body, 'stop', fit)
  if (Array.isArray(body.tools)) {
    const tools = each(body.tools, tool => fitChatTool(tool, fit))
    body.tools = fit.unique(tools, ({ function: declared, custom }) => {
      const named = declared ?? custom
      return isJsonObject(named) ? named.name : undefined
    })
  }
  if (Array.isArray(body.functions)) body.functions = each(body.functions, declared => fitFunction(declared, fit))
  if (body.tool_choice !== undefined) body.tool_choice = fitChoice(body.tool_choice, fit)
  if (isJsonObject(body.function_call)) {
    body.function_call = { ...body.function_call, name: fit.toolName(body.function_call.name) }
  }
  if (Array.isArray(body.messages)) {
    const messages = each(body.messages, message => fitChatMessage(message, fit))
    body.messages = fit.rules.speakerName === null ? messages : fitChatPairs(messages)
    if (body.messages !== messages) fit.changed.add('messages')
  }
  const { response_format: format } = body
  if (isJsonObject(format) && isJsonObject(format.json_schema)) {
    body.response_format = { ...format, json_schema: fitNamedSchema(format.json_schema, fit) }
  }
}

function fitStops(holder: JsonObject, field: string, fit: Fit): void {
  const { [field]: given } = holder
  const sent = fit.stops(given)
  if (sent === given) return
  if (sent === undefined) delete holder[field]
  else holder[field] = sent
}

function fitChatTool(tool: JsonObject, fit: Fit): JsonObject {
  if (isJsonObject(tool.function)) return { ...tool, function: fitFunction(tool.function, fit) }
  return isJsonObject(tool.custom)
    ? { ...tool, custom: { ...tool.custom, name: fit.toolName(tool.custom.name) } }
    : tool
}

/** Fits the schema of an answer as OpenAI names it. The vendors have the same rule for its name as for a tool's. */
function fitNamedSchema(described: JsonObject, fit: Fit): JsonObject {
  const { name, strict } = described
  const fitted = fit.output(described.schema, strict === true)
  return {
    ...withoutNulls(described),
    ...(typeof name === 'string' && { name: fit.schemaName(name) }),
    ...(described.schema !== undefined && { schema: fitted.schema }),
    ...(strict === true && { strict: fitted.strict }),
  }
}

/** Fits the definition of a function. A null means that a field is absent, and some servers refuse it. */
function fitFunction(declared: JsonObject, fit: Fit): JsonObject {
  const given = withoutNulls(declared)
  const isStrict = given.strict === true
  const fitted =
    given.parameters === undefined && !isStrict ? null : fit.parameters(given.parameters, isStrict, given.name)
  return {
    ...given,
    name: fit.toolName(given.name),
    ...(fitted !== null && { parameters: fitted.parameters, ...(isStrict && { strict: fitted.strict }) }),
  }
}

/** `{type: 'function', function: {name}}`, `{type: 'function', name}` or `{type: 'allowed_tools', ...}`. */
function fitChoice(choice: unknown, fit: Fit): unknown {
  if (!isJsonObject(choice)) return choice
  const fitted: JsonObject = { ...choice }
  if ('name' in fitted) fitted.name = fit.toolName(fitted.name)
  for (const kind of ['function', 'custom']) {
    const named = fitted[kind]
    if (isJsonObject(named)) fitted[kind] = { ...named, name: fit.toolName(named.name) }
  }
  for (const holder of [fitted, isJsonObject(fitted.allowed_tools) ? { ...fitted.allowed_tools } : null]) {
    if (holder === null || !Array.isArray(holder.tools)) continue
    holder.tools = each(holder.tools, tool => fitChoice(tool, fit) as JsonObject)
    if (holder !== fitted) fitted.allowed_tools = holder
  }
  return fitted
}

function fitChatMessage(message: JsonObject, fit: Fit): JsonObject {
  const { tool_calls: calls, tool_call_id: callId, function_call: call } = message
  const changes: JsonObject = {}
  fitSpeaker(message, fit, changes)
  if (callId !== undefined && fit.callId(callId) !== callId) changes.tool_call_id = fit.callId(callId)
  if (Array.isArray(calls)) {
    const fitted = each(calls, each => fitChatCall(each, fit))
    if (fitted !== calls) changes.tool_calls = fitted
  }
  if (isJsonObject(call) && fit.toolName(call.name) !== call.name) {
    changes.function_call = { ...call, name: fit.toolName(call.name) }
  }
  const isNamed = message.role === 'tool' || message.role === 'function'
  if (isNamed && typeof message.name === 'string' && fit.toolName(message.name) !== message.name) {
    changes.name = fit.toolName(message.name)
  }
  return isEmpty(changes) ? message : { ...message, ...changes }
}

/** An assistant's turn without a text or a call is refused, unless its text is empty. */
function fitSpeaker({ role, name, content, ...message }: JsonObject, fit: Fit, changes: JsonObject): void {
  const { speakerName } = fit.rules
  if (speakerName === null || role === 'tool' || role === 'function') return
  if (typeof name === 'string' && !speakerName.test(name)) {
    changes.name = name.replace(/[\s<|\\/>]+/g, '_').slice(0, NAME_CHARACTERS_MAX) || '_'
    fit.changed.add('messages.name')
  }
  const isSilent = (content ?? null) === null || (Array.isArray(content) && content.length === 0)
  if (role === 'assistant' && isSilent && !saysOtherwise(message)) changes.content = ''
}

function saysOtherwise({ tool_calls: calls, function_call: call, refusal, audio }: JsonObject): boolean {
  return (Array.isArray(calls) && calls.length > 0) || isJsonObject(call) || isJsonObject(audio) || Boolean(refusal)
}

/** Servers parse the arguments, and an empty text is no JSON. */
function fitChatCall(call: JsonObject, fit: Fit): JsonObject {
  const changes: JsonObject = {}
  const id = fit.callId(call.id)
  if (id !== call.id) changes.id = id
  for (const kind of ['function', 'custom']) {
    const called = call[kind]
    if (!isJsonObject(called)) continue
    const name = fit.toolName(called.name)
    const isBare = kind === 'function' && typeof called.arguments === 'string' && called.arguments.trim() === ''
    if (name !== called.name || isBare) changes[kind] = { ...called, name, ...(isBare && { arguments: '{}' }) }
  }
  return isEmpty(changes) ? call : { ...call, ...changes }
}

function fitResponses(body: JsonObject, fit: Fit): void {
  for (const field of identifiers) fit.identifier(body, field)
  const { max_output_tokens: limit } = body
  if (typeof limit === 'number' && limit < fit.rules.outputTokensMin) {
    body.max_output_tokens = fit.rules.outputTokensMin
    fit.changed.add('max_output_tokens')
  }
  if (Array.isArray(body.tools)) {
    const tools = each(body.tools, tool => fitResponsesTool(tool, fit))
    body.tools = fit.unique(tools, ({ name }) => name)
  }
  if (body.tool_choice !== undefined) body.tool_choice = fitChoice(body.tool_choice, fit)
  if (Array.isArray(body.input)) {
    const items = each(body.input, item => withoutForeignId(fitItem(item, fit)))
    body.input = fitItemPairs(items)
    if (body.input !== items) fit.changed.add('input')
  }
  const { text } = body
  if (isJsonObject(text) && isJsonObject(text.format) && text.format.schema !== undefined) {
    body.text = { ...text, format: fitNamedSchema(text.format, fit) }
  }
}

/** A function without `parameters` is refused; other tools have none. */
function fitResponsesTool(tool: JsonObject, fit: Fit, namespace?: string): JsonObject {
  if (tool.type === 'namespace' && Array.isArray(tool.tools)) {
    const name = fit.toolName(tool.name)
    const client = typeof tool.name === 'string' ? tool.name : ''
    return { ...tool, name, tools: each(tool.tools, inner => fitResponsesTool(inner, fit, client)) }
  }
  if (tool.type !== 'function' && tool.type !== 'custom') return tool
  const fitted =
    tool.type === 'function'
      ? fitFunction({ ...tool, parameters: tool.parameters ?? {} }, fit)
      : { ...tool, name: fit.toolName(tool.name) }
  if (namespace !== undefined) nameInNamespace(tool.name, fitted.name, namespace, fit)
  return fitted
}

/** Calls come back with both names, flat. */
function nameInNamespace(name: unknown, sent: unknown, namespace: string, fit: Fit): void {
  const sentNamespace = fit.toolName(namespace)
  if (typeof name !== 'string' || typeof sent !== 'string' || typeof sentNamespace !== 'string') return
  if (name === sent && namespace === sentNamespace) return
  fit.names.set(flatToolName({ name: sent, namespace: sentNamespace }), flatToolName({ name, namespace }))
}

function fitItem(item: JsonObject, fit: Fit): JsonObject {
  const changes: JsonObject = {}
  if ('call_id' in item && fit.callId(item.call_id) !== item.call_id) changes.call_id = fit.callId(item.call_id)
  if (item.type === 'function_call' || item.type === 'custom_tool_call') {
    if (fit.toolName(item.name) !== item.name) changes.name = fit.toolName(item.name)
    if (fit.toolName(item.namespace) !== item.namespace) changes.namespace = fit.toolName(item.namespace)
    const isBare = typeof item.arguments === 'string' && item.arguments.trim() === ''
    if (item.type === 'function_call' && isBare) changes.arguments = '{}'
  }
  if (Array.isArray(item.tools) && (item.type === 'additional_tools' || item.type === 'tool_search_output')) {
    changes.tools = each(item.tools, tool => fitResponsesTool(tool, fit))
  }
  return isEmpty(changes) ? item : { ...item, ...changes }
}

/**
 * The fields of a tool of the client that servers of messages know without a beta. Servers such as Bedrock refuse
 * others: "Extra inputs are not permitted" (anthropics/claude-code issues 32820 and 33180).
 */
const toolFields: ReadonlySet<string> = new Set([
  ...['type', 'name', 'description', 'input_schema', 'cache_control', 'strict', 'defer_loading'],
])

function fitMessages(body: JsonObject, fit: Fit): void {
  fitStops(body, 'stop_sequences', fit)
  if (isJsonObject(body.metadata)) {
    const metadata = { ...body.metadata }
    fit.identifier(metadata, 'user_id', 'metadata.user_id')
    body.metadata = metadata
  }
  if (Array.isArray(body.tools)) {
    const hasSearch = body.tools.some(tool => isJsonObject(tool) && String(tool.type).startsWith('tool_search_tool'))
    const tools = each(body.tools, tool => fitMessagesTool(tool, hasSearch, fit))
    body.tools = fit.unique(tools, ({ name }) => name)
  }
  const { tool_choice: choice } = body
  if (isJsonObject(choice) && 'name' in choice) body.tool_choice = { ...choice, name: fit.toolName(choice.name) }
  if (Array.isArray(body.messages)) {
    const messages = each(body.messages, message => {
      if (!Array.isArray(message.content)) return message
      const content = each(message.content, block => fitBlock(block, fit))
      return content === message.content ? message : { ...message, content }
    })
    body.messages = fitMessageTurns(messages)
    if (body.messages !== messages) fit.changed.add('messages')
  }
  if (Array.isArray(body.system)) {
    const system = withoutBlankTexts(body.system)
    if (system.length === 0) delete body.system
    else body.system = system
  }
  const { output_config: config } = body
  if (isJsonObject(config) && isJsonObject(config.format) && config.format.schema !== undefined) {
    body.output_config = {
      ...config,
      format: { ...config.format, schema: fit.output(config.format.schema, true).schema },
    }
  }
}

function fitMessagesTool(tool: JsonObject, hasSearch: boolean, fit: Fit): JsonObject {
  if (tool.type !== undefined && tool.type !== null && tool.type !== 'custom') return tool
  const fitted: JsonObject = {}
  for (const [field, value] of Object.entries(withoutNulls(tool))) {
    // Tools are deferred until a search finds them.
    if (toolFields.has(field) && (field !== 'defer_loading' || hasSearch)) fitted[field] = value
    else fit.dropped.add(`tools.${field}`)
  }
  return {
    ...fitted,
    name: fit.toolName(tool.name),
    input_schema: fit.parameters(tool.input_schema, tool.strict === true, tool.name).parameters,
  }
}

function fitBlock(block: JsonObject, fit: Fit): JsonObject {
  const changes: JsonObject = {}
  switch (block.type) {
    case 'tool_use':
      if (fit.callId(block.id) !== block.id) changes.id = fit.callId(block.id)
      if (block.toolset_name === undefined && fit.toolName(block.name) !== block.name) {
        changes.name = fit.toolName(block.name)
      }
      fitInput(block, fit, changes)
      break
    case 'tool_result': {
      const { tool_use_id: id, content } = block
      if (fit.callId(id) !== id) changes.tool_use_id = fit.callId(id)
      if (!Array.isArray(content)) break
      const fitted = each(content, inner => fitBlock(inner, fit))
      if (fitted !== content) changes.content = fitted
      break
    }
    case 'image': {
      const { source } = block
      if (!isJsonObject(source)) break
      const type = fit.mediaType(source.media_type, source.data)
      if (type !== source.media_type) changes.source = { ...source, media_type: type }
    }
  }
  return isEmpty(changes) ? block : { ...block, ...changes }
}

/** The model sees the arguments of earlier calls as it wrote them. */
function fitInput({ name, input }: JsonObject, fit: Fit, changes: JsonObject): void {
  const names = typeof name === 'string' ? fit.properties.get(name) : undefined
  if (names !== undefined)
    changes.input = renameProperties(input, new Map([...names].map(([sent, own]) => [own, sent])))
}

function fitGemini(body: JsonObject, fit: Fit): void {
  if (Array.isArray(body.tools)) {
    body.tools = each(body.tools, tool => {
      const { functionDeclarations: declared } = tool
      if (!Array.isArray(declared)) return tool
      const functions = each(declared, each => fitDeclaration(each, fit))
      return { ...tool, functionDeclarations: fit.unique(functions, ({ name }) => name) }
    })
  }
  const { toolConfig, generationConfig: config } = body
  if (isJsonObject(toolConfig) && isJsonObject(toolConfig.functionCallingConfig)) {
    const { functionCallingConfig: calling } = toolConfig
    const { allowedFunctionNames: names } = calling
    if (Array.isArray(names)) {
      const sent = names.map(name => fit.toolName(name))
      body.toolConfig = { ...toolConfig, functionCallingConfig: { ...calling, allowedFunctionNames: sent } }
    }
  }
  if (Array.isArray(body.contents)) {
    body.contents = each(body.contents, content => {
      if (!Array.isArray(content.parts)) return content
      const parts = each(content.parts, part => fitPart(part, fit))
      return parts === content.parts ? content : { ...content, parts }
    })
  }
  if (isJsonObject(config) && (config.responseJsonSchema !== undefined || config.stopSequences !== undefined)) {
    const { responseJsonSchema: schema } = config
    const settings = { ...config, ...(schema !== undefined && { responseJsonSchema: fit.output(schema, true).schema }) }
    fitStops(settings, 'stopSequences', fit)
    body.generationConfig = settings
  }
}

function fitDeclaration(declared: JsonObject, fit: Fit): JsonObject {
  const given = withoutNulls(declared)
  return {
    ...given,
    name: fit.toolName(given.name),
    ...(given.parametersJsonSchema !== undefined && {
      parametersJsonSchema: fit.parameters(given.parametersJsonSchema, false, given.name).parameters,
    }),
  }
}

function fitPart(part: JsonObject, fit: Fit): JsonObject {
  const changes: JsonObject = {}
  for (const kind of ['functionCall', 'functionResponse']) {
    const called = part[kind]
    if (isJsonObject(called) && fit.toolName(called.name) !== called.name) {
      changes[kind] = { ...called, name: fit.toolName(called.name) }
    }
  }
  const { inlineData: data } = part
  if (isJsonObject(data)) {
    const type = fit.mediaType(data.mimeType, data.data)
    if (type !== data.mimeType) changes.inlineData = { ...data, mimeType: type }
  }
  return isEmpty(changes) ? part : { ...part, ...changes }
}

/** Returns the list with each object changed, and the list itself if none is. */
function each(list: readonly unknown[], change: (item: JsonObject) => JsonObject): readonly unknown[] {
  let changed: unknown[] | null = null
  list.forEach((item, index) => {
    const next = isJsonObject(item) ? change(item) : item
    if (next === item) return
    changed ??= [...list]
    changed[index] = next
  })
  return changed ?? list
}

function withoutNulls(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null))
}

function isEmpty(object: object): boolean {
  for (const _ in object) return false
  return true
}
