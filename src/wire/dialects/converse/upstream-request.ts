import type { Conversation } from '../../../base/domain/conversation.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { conversationToMessages, type MessagesTarget } from '../messages/conversation-to-messages.ts'

/** Converse refuses a result without content. */
const NO_CONTENT = 'The tool returned nothing.'

/**
 * Returns the body of a Converse request for a conversation, by way of that of Anthropic's messages, which has the same
 * rules for turns, calls, results and cache points. Leaves out what Converse cannot express: see docs/dialects.md.
 *
 * @param fit changes that body to what Bedrock accepts
 */
export function converseRequestBody(
  conversation: Conversation,
  target: MessagesTarget,
  fit: (body: JsonObject) => JsonObject = body => body,
): JsonObject {
  const isClaude = isClaudeModel(target.model)
  const body = fit(conversationToMessages(conversation, isClaude ? target : { ...target, thinking: 'none' }))
  const { tools, tool_choice: choice, thinking, output_config: output, top_k: topK } = body
  const messages = (body.messages as JsonObject[]).map(({ role, content }) => ({
    role,
    content: (content as JsonObject[]).flatMap(block => writeBlock(block, isClaude)),
  }))
  const more = { ...(thinking !== undefined && { thinking }), ...(isClaude && topK !== undefined && { top_k: topK }) }
  const toolConfig = Array.isArray(tools)
    ? writeTools(tools as JsonObject[], choice as JsonObject | undefined, messages)
    : null
  return {
    messages: alternating(messages),
    ...(Array.isArray(body.system) && {
      system: (body.system as JsonObject[]).flatMap(block => writeBlock(block, isClaude)),
    }),
    inferenceConfig: {
      maxTokens: target.maxTokens,
      ...(body.temperature !== undefined && { temperature: body.temperature }),
      ...(body.top_p !== undefined && { topP: body.top_p }),
      ...(body.stop_sequences !== undefined && { stopSequences: body.stop_sequences }),
    },
    ...(toolConfig !== null && { toolConfig }),
    ...(isJsonObject(output) && { outputConfig: writeOutput(conversation, output) }),
    ...(Object.keys(more).length > 0 && { additionalModelRequestFields: more }),
  }
}

interface Message {
  readonly role: unknown
  readonly content: JsonObject[]
}

/** Roles must alternate: a turn that lost its only part, reasoning, joins its neighbours. */
function alternating(messages: readonly Message[]): Message[] {
  const kept: Message[] = []
  for (const message of messages) {
    const last = kept.at(-1)
    if (message.content.length === 0) continue
    if (last !== undefined && last.role === message.role) last.content.push(...message.content)
    else kept.push(message)
  }
  return kept
}

/** Models and system profiles, also by their ARN, name the vendor; profiles of applications do not. */
function isClaudeModel(model: string): boolean {
  return /(^|[./])anthropic[.]/.test(model)
}

/**
 * Returns the path of a request, appended to the base URL, for example
 * `https://bedrock-runtime.us-east-1.amazonaws.com`.
 */
export function conversePath({ upstreamModel }: Offer, stream: boolean): string {
  return `/model/${encodeURIComponent(upstreamModel)}/${stream ? 'converse-stream' : 'converse'}`
}

/** A cache point is a block of its own, after the one that it ends with. */
function writeBlock(block: JsonObject, isClaude: boolean): JsonObject[] {
  const written = writeContent(block, isClaude)
  return written === null ? [] : [written, ...cachePoint(block)]
}

function cachePoint({ cache_control: control }: JsonObject): JsonObject[] {
  if (!isJsonObject(control)) return []
  return [{ cachePoint: { type: 'default', ...(control.ttl !== undefined && { ttl: control.ttl }) } }]
}

function writeContent(block: JsonObject, isClaude: boolean): JsonObject | null {
  switch (block.type) {
    case 'text':
      return { text: block.text }
    case 'image':
      return writeImage(block.source as JsonObject)
    case 'document':
      return writeDocument(block)
    case 'tool_use':
      return { toolUse: { toolUseId: block.id, name: block.name, input: block.input } }
    case 'tool_result':
      return writeResult(block, isClaude)
    case 'thinking':
      return isClaude
        ? { reasoningContent: { reasoningText: { text: block.thinking, signature: block.signature } } }
        : null
    case 'redacted_thinking':
      return isClaude ? { reasoningContent: { redactedContent: block.data } } : null
    default:
      return null
  }
}

function writeResult({ tool_use_id: id, content, is_error: isError }: JsonObject, isClaude: boolean): JsonObject {
  const blocks = Array.isArray(content)
    ? (content as JsonObject[]).flatMap(block => writeContent(block, isClaude) ?? [])
    : []
  return {
    toolResult: {
      toolUseId: id,
      content: blocks.length > 0 ? blocks : [{ text: NO_CONTENT }],
      ...(isError === true && { status: 'error' }),
    },
  }
}

/** Requests with images from other servers never come here: see upstream-dialect.ts. */
function writeImage({ media_type: type, data }: JsonObject): JsonObject | null {
  if (typeof data !== 'string') return null
  return {
    image: {
      format: String(type).replace(/^image\/(jpg$)?/, (_, jpg) => (jpg ? 'jpeg' : '')),
      source: { bytes: data },
    },
  }
}

const documentFormats: Readonly<Record<string, string>> = {
  'application/pdf': 'pdf',
  'text/csv': 'csv',
  'text/html': 'html',
  'text/markdown': 'md',
  'application/msword': 'doc',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
}

function writeDocument({ source, title }: JsonObject): JsonObject | null {
  const { type, media_type: mediaType, data } = source as JsonObject
  if (typeof data !== 'string') return null
  const format = documentFormats[String(mediaType)] ?? 'txt'
  // Other characters are refused.
  const name = (typeof title === 'string' ? title : '')
    .replace(/[^A-Za-z0-9()[\]-]+/g, ' ')
    .trim()
    .slice(0, 200)
  return { document: { format, name: name || 'document', source: type === 'text' ? { text: data } : { bytes: data } } }
}

/** There is no choice that forbids tools: then they are left out, unless an earlier turn called one. */
function writeTools(
  tools: readonly JsonObject[],
  choice: JsonObject | undefined,
  messages: readonly { readonly content: readonly JsonObject[] }[],
): JsonObject | null {
  const isUsed = () => messages.some(({ content }) => content.some(block => 'toolUse' in block))
  if (choice?.type === 'none' && !isUsed()) return null
  const toolChoice = writeChoice(choice)
  return {
    tools: tools.flatMap(tool => [
      {
        toolSpec: {
          name: tool.name,
          ...(tool.description !== undefined && { description: tool.description }),
          inputSchema: { json: tool.input_schema },
          ...(tool.strict === true && { strict: true }),
        },
      },
      ...cachePoint(tool),
    ]),
    ...(toolChoice !== null && { toolChoice }),
  }
}

function writeChoice(choice: JsonObject | undefined): JsonObject | null {
  if (choice?.type === 'any') return { any: {} }
  return choice?.type === 'tool' ? { tool: { name: choice.name } } : null
}

function writeOutput({ outputFormat }: Conversation, { effort, format }: JsonObject): JsonObject {
  const config: JsonObject = { ...(effort !== undefined && { effort }) }
  if (outputFormat?.kind !== 'json_schema') return config
  const { name, description } = outputFormat
  const { schema } = format as JsonObject
  const jsonSchema = { schema: JSON.stringify(schema), name, ...(description !== null && { description }) }
  return { ...config, textFormat: { type: 'json_schema', structure: { jsonSchema } } }
}
