import { type RequestFacts, type RequestFeature, type RoutingFields, routingOf } from '../../../base/domain/chat-job.ts'
import type { Conversation, Part } from '../../../base/domain/conversation.ts'
import { returnsPictures } from '../responses/client-tools.ts'
import { boundConversation, conversationText } from './prompt-size.ts'

/** Agents fail at an answer that was cut off, so a hold for fewer tokens is refused. */
export const AGENT_OUTPUT_FLOOR_TOKENS = 4_096

/** The facts that a conversation does not contain. */
interface OtherFacts {
  readonly model: string
  readonly stream: boolean
  readonly messageCount: number
  readonly droppedFields: readonly string[]
}

/** Returns the facts of a request that became a conversation. `fields` must be checked. */
export function jobFacts(conversation: Conversation, fields: RoutingFields, request: OtherFacts): RequestFacts {
  const size = boundConversation(conversation)
  const kinds = new Set(conversation.turns.flatMap(turn => turn.parts.flatMap(partKinds)))
  return {
    task: 'chat',
    model: request.model,
    // Agents name the largest limit that they know, so a lower one serves them.
    ...routingOf(fields, 'clamp'),
    outputFloorTokens: AGENT_OUTPUT_FLOOR_TOKENS,
    stream: request.stream,
    includeUsage: true,
    maxTokens: conversation.maxOutputTokens,
    ...(conversation.maxOutputTokens === null && { isLimitOpen: true }),
    choices: 1,
    hasStop: conversation.sampling.stop.length > 0,
    features: requiredFeatures(conversation, kinds),
    inputTokensBound: size.tokensBound,
    promptText: () => conversationText(conversation),
    promptTextBytes: size.textBytes,
    promptLength: undefined,
    sessionKey: conversation.cacheKey,
    mediaTokensBound: size.mediaTokensBound,
    messageCount: request.messageCount,
    droppedFields: request.droppedFields,
  }
}

function partKinds(part: Part): Part['kind'][] {
  return part.kind === 'tool_result' ? [part.kind, ...part.content.map(({ kind }) => kind)] : [part.kind]
}

function requiredFeatures(
  { tools, outputFormat }: Conversation,
  kinds: ReadonlySet<Part['kind']>,
): Set<RequestFeature> {
  const features = new Set<RequestFeature>()
  if (tools.length > 0) features.add('tools')
  if (outputFormat?.kind === 'json_schema') features.add('json_schema')
  if (kinds.has('image') || tools.some(returnsPictures)) features.add('images')
  if (kinds.has('audio')) features.add('audio')
  if (kinds.has('document')) features.add('documents')
  return features
}
