import type { Dialect } from '../../../base/domain/conversation.ts'
import type { Offer } from '../../../base/domain/offer.ts'

/** What a vendor accepts of the JSON Schemas in a request. */
export interface SchemaRules {
  /** The keywords that it knows. What it does not know goes into the description. Null: all. */
  readonly keywords: ReadonlySet<string> | null
  /** Keywords that go into the description although `keywords` does not rule them out. */
  readonly refused?: ReadonlySet<string>
  /** The values of `format` that it knows. Null: all. */
  readonly formats: ReadonlySet<string> | null
  /** The largest `minItems`. */
  readonly minItemsMax: number
  /** Each object must say `additionalProperties: false`. */
  readonly isClosed: boolean
  /** The top must be an object without `anyOf`, `oneOf`, `allOf`, `not` and `enum`. */
  readonly isPlainAtTop: boolean
  /** Each list must say what its items are. */
  readonly needsItems: boolean
  /** `oneOf` and `const` become `anyOf` and `enum`. */
  readonly hasOnlyAnyOf: boolean
  /** Whatever is no JSON Schema 2020-12 is repaired or left out. */
  readonly isValid: boolean
  /** `required` may name defined properties only, and `enum` has texts and numbers that are not empty. */
  readonly isDefined: boolean
  /** The names of the properties at the top of a tool's parameters. Null: any. */
  readonly propertyName: RegExp | null
  /** No keyword may stand beside `$ref`. */
  readonly hasBareRefs: boolean
}

/**
 * What servers of one dialect accept besides the shape of a body. The patterns are those of the vendors' documents and
 * errors.
 */
export interface VendorRules {
  readonly toolName: RegExp
  /** Null: any. */
  readonly callId: RegExp | null
  /** The longest id of an end user or of a cache, in characters. */
  readonly identifierCharactersMax: number
  /** The lowest limit of output tokens. */
  readonly outputTokensMin: number
  readonly parameters: SchemaRules
  /** For the schema of an answer, and for the parameters of strict tools. */
  readonly output: SchemaRules
  /** The same where they are `strict`, and not every schema can be. Null: as `output`. */
  readonly strict: SchemaRules | null
  /** The names of speakers in messages, and an empty text for an answer without one. Null: any. */
  readonly speakerName: RegExp | null
  /** True if the types of images must be those of their bytes. */
  readonly readsMediaTypes: boolean
}

const anySchema: SchemaRules = {
  keywords: null,
  formats: null,
  minItemsMax: Number.POSITIVE_INFINITY,
  isClosed: false,
  isPlainAtTop: false,
  needsItems: false,
  hasOnlyAnyOf: false,
  isValid: false,
  isDefined: false,
  propertyName: null,
  hasBareRefs: false,
}

/**
 * OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level", "array
 * schema missing items" (github/github-mcp-server issue 1548, tailcallhq/forgecode issue 1359).
 */
const openaiParameters: SchemaRules = { ...anySchema, isValid: true, isPlainAtTop: true, needsItems: true }

/**
 * OpenAI's "Structured outputs", supported schemas. Keywords outside are refused in strict mode: "'minLength' is not
 * permitted", "'oneOf' is not permitted", "$ref cannot have keywords {'description'}".
 */
const openaiStrict: SchemaRules = {
  ...anySchema,
  keywords: new Set([
    ...['type', 'properties', 'required', 'additionalProperties', 'items', 'enum', 'const', 'anyOf', '$ref', '$defs'],
    ...['definitions', 'title', 'description', 'pattern', 'format', 'multipleOf', 'minimum', 'maximum'],
    ...['exclusiveMinimum', 'exclusiveMaximum', 'minItems', 'maxItems'],
  ]),
  formats: new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']),
  isValid: true,
  isClosed: true,
  hasBareRefs: true,
}

/**
 * Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the top level", "Property keys should match pattern
 * '^[a-zA-Z0-9_.-]{1,64}$'" (beautyfree/appstore-connect-mcp issue 1, decocms/studio pull request 6874). A pattern of
 * names is refused as an invalid schema (openclaw/openclaw issue 29416).
 */
const anthropicParameters: SchemaRules = {
  ...anySchema,
  refused: new Set(['patternProperties']),
  isValid: true,
  isPlainAtTop: true,
  propertyName: /^[a-zA-Z0-9_.-]{1,64}$/,
}

/**
 * The subset of Anthropic's structured outputs and strict tools: docs.claude.com, "Structured outputs", JSON Schema
 * limitations.
 */
const anthropicOutput: SchemaRules = {
  keywords: new Set([
    ...['type', 'properties', 'required', 'additionalProperties', 'items', 'enum', 'const', 'anyOf', 'allOf', '$ref'],
    ...['$defs', 'definitions', 'default', 'title', 'description', 'format', 'minItems'],
  ]),
  formats: new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid']),
  minItemsMax: 1,
  isValid: true,
  isDefined: false,
  propertyName: null,
  isClosed: true,
  isPlainAtTop: false,
  needsItems: false,
  hasOnlyAnyOf: false,
  hasBareRefs: false,
}

/**
 * The keywords of Gemini's JSON Schema: ai.google.dev, "Structured output", and its API reference,
 * `responseJsonSchema`. "required[0]: property is not defined", "enum[0]: cannot be empty" (iBUHub/AIStudioToAPI issue
 * 154).
 */
const geminiSchema: SchemaRules = {
  ...anySchema,
  isValid: true,
  isDefined: true,
  keywords: new Set([
    ...['$id', '$defs', '$ref', '$anchor', 'type', 'format', 'title', 'description', 'enum', 'items', 'prefixItems'],
    ...['minItems', 'maxItems', 'minimum', 'maximum', 'anyOf', 'properties', 'additionalProperties', 'required'],
    ...['propertyOrdering', 'nullable', 'minLength', 'maxLength', 'pattern', 'default', 'definitions'],
  ]),
  formats: new Set(['date-time', 'date', 'time', 'duration', 'enum', 'int32', 'int64', 'float', 'double']),
  hasOnlyAnyOf: true,
}

const openaiRules: VendorRules = {
  toolName: /^[a-zA-Z0-9_-]{1,64}$/,
  callId: null,
  // OpenAI documents 128 for `safety_identifier`, and 64 were met as well (looplj/axonhub issue 1669, maximhq/bifrost
  // issue 1000).
  identifierCharactersMax: 64,
  outputTokensMin: 1,
  parameters: openaiParameters,
  output: { ...anySchema, isValid: true },
  strict: openaiStrict,
  // "Invalid 'messages[0].name': string does not match pattern".
  speakerName: /^[^\s<|\\/>]{1,64}$/,
  readsMediaTypes: false,
}

const anthropicRules: VendorRules = {
  toolName: /^[a-zA-Z0-9_-]{1,128}$/,
  callId: /^[a-zA-Z0-9_-]{1,256}$/,
  identifierCharactersMax: 256,
  outputTokensMin: 1,
  parameters: anthropicParameters,
  output: anthropicOutput,
  strict: null,
  speakerName: null,
  readsMediaTypes: true,
}

const rulesByDialect: Readonly<Record<Dialect, VendorRules>> = {
  chat: openaiRules,
  responses: {
    ...openaiRules,
    callId: /^[a-zA-Z0-9_-]{1,64}$/,
    // "integer below minimum value. Expected a value >= 16" (farion1231/cc-switch issue 7103).
    outputTokensMin: 16,
  },
  messages: anthropicRules,
  gemini: {
    // "Must start with a letter or an underscore ... with a maximum length of 64" (google-gemini/gemini-cli issue 602).
    toolName: /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/,
    callId: null,
    identifierCharactersMax: Number.POSITIVE_INFINITY,
    outputTokensMin: 1,
    parameters: { ...geminiSchema, isPlainAtTop: true },
    output: geminiSchema,
    strict: null,
    speakerName: null,
    readsMediaTypes: true,
  },
  // AWS, API reference of Bedrock Runtime: ToolSpecification, ToolUseBlock.
  converse: {
    ...anthropicRules,
    toolName: /^[a-zA-Z0-9_-]{1,64}$/,
    callId: /^[a-zA-Z0-9_-]{1,64}$/,
  },
}

/** Local servers and those of hosters take any schema of an object, and some generate by it. */
const ownServers: VendorRules = {
  ...openaiRules,
  parameters: anySchema,
  output: anySchema,
  strict: null,
  speakerName: null,
}

/** Returns the rules of the server of an offer, when it is asked in this dialect. Its stop sequences: vendor-counts.ts. */
export function rulesOf({ endpoint }: Pick<Offer, 'endpoint'>, dialect: Dialect): VendorRules {
  return dialect === 'chat' && endpoint.kind !== 'cloud' ? ownServers : rulesByDialect[dialect]
}
