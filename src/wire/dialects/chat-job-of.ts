import type { ChatJob, Feature, ParsedRequest, RequestFeature } from '../../base/domain/chat-job.ts'
import type { Effort, Turn } from '../../base/domain/conversation.ts'
import { conversationToChat } from './chat/conversation-to-chat.ts'
import { type ExtraFieldRules, forwardedFields } from './chat/forwarded-fields.ts'
import { untranslatableFields } from './translation/untranslatable-fields.ts'

/** Custom tools become functions. A server that does not read reasoning names that in its `dropFields`. */
const chatServer = { takesCustomTools: false, takesReasoning: true } as const

/** vLLM refuses other values; these are the nearest that every server knows. */
const commonEfforts: Partial<Record<Effort, Effort>> = { minimal: 'low', xhigh: 'high', max: 'high' }

/** Features that exist in one dialect only. */
const nativeFeatures: ReadonlySet<RequestFeature> = new Set(['citations', 'native_tools'])

/** Returns the job of a request of another dialect, with the body for chat servers. */
export function chatJobOf(
  { dialect, body, facts, ownFields = [], ...request }: ParsedRequest,
  rules: ExtraFieldRules,
): ChatJob {
  const features = new Set<Feature>()
  let isNativeOnly = false
  for (const feature of facts.features) {
    if (nativeFeatures.has(feature)) isNativeOnly = true
    // Every kind of server may read documents, and none says so.
    else if (feature !== 'documents') features.add(feature as Feature)
  }
  const conversation = request.conversation()
  const chatBody = conversationToChat({ ...conversation, turns: conversation.turns.map(withoutSystem) }, chatServer)
  const { effort } = conversation.reasoning
  if (effort !== null) chatBody.reasoning_effort = commonEfforts[effort] ?? effort
  const { forward, extraFields, droppedFields } = forwardedFields(chatBody, rules)
  const { dropped } = untranslatableFields(conversation, 'chat')
  return {
    ...facts,
    features,
    forward,
    extraFields,
    droppedFields: [...new Set([...facts.droppedFields, ...ownFields, ...dropped, ...droppedFields])],
    source: { dialect, body, ownFields, ...(isNativeOnly && { isNativeOnly }), conversation: () => conversation },
  }
}

/** The templates of many local models refuse instructions after the first turn, so the user says them. */
function withoutSystem(turn: Turn): Turn {
  return turn.role === 'system' ? { role: 'user', parts: turn.parts } : turn
}
