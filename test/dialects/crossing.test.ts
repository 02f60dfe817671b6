import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Conversation, Part } from '../../src/base/domain/conversation.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { chatToConversation } from '../../src/wire/dialects/chat/chat-to-conversation.ts'
import { conversationToChat } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { conversationToMessages } from '../../src/wire/dialects/messages/conversation-to-messages.ts'
import { messagesToConversation, parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { arbitraryConversation, type Expressible } from './arbitrary-chat-conversation.ts'

const byMessages: Expressible = {
  mixedAssistantParts: true,
  sealedReasoning: true,
  reasoningText: false,
  cacheHints: true,
  documents: true,
  audio: false,
  resultMedia: true,
  resultErrors: true,
  systemTurns: false,
  customTools: false,
  namedFormats: false,
  penalties: false,
  topK: true,
  verbosity: false,
  brokenArguments: false,
}

const byChat: Expressible = {
  mixedAssistantParts: false,
  sealedReasoning: false,
  reasoningText: true,
  cacheHints: false,
  documents: true,
  audio: true,
  resultMedia: false,
  resultErrors: false,
  systemTurns: true,
  customTools: true,
  namedFormats: true,
  penalties: true,
  topK: true,
  verbosity: true,
  brokenArguments: true,
}

/** What both dialects can express. */
const byBoth: Expressible = {
  ...byChat,
  reasoningText: false,
  audio: false,
  customTools: false,
  namedFormats: false,
  penalties: false,
  verbosity: false,
  systemTurns: false,
}

const overTheWire = (body: JsonObject) => JSON.parse(JSON.stringify(body)) as JsonObject

const throughMessages = (conversation: Conversation, thinking: 'adaptive' | 'none' = 'adaptive') =>
  messagesToConversation(
    overTheWire(
      conversationToMessages(conversation, {
        model: 'm',
        maxTokens: conversation.maxOutputTokens ?? 4_096,
        stream: false,
        thinking,
        takesSampling: true,
        caches: 'long',
      }),
    ),
  )

const throughChat = (conversation: Conversation) =>
  chatToConversation(
    overTheWire(conversationToChat(conversation, { takesCustomTools: true, takesReasoning: true })),
    conversation.maxOutputTokens,
  )

/** Anthropic takes no sampling settings while it thinks, no thinking with a demanded call, and joins user turns. */
function asMessagesSay(conversation: Conversation): Conversation {
  const { toolChoice, reasoning, sampling, tools } = conversation
  const isForced = tools.length > 0 && (toolChoice?.kind === 'must' || toolChoice?.kind === 'only')
  const isThinking = !isForced && reasoning.effort !== null && reasoning.effort !== 'none'
  return withJoinedTurns({
    ...conversation,
    sampling: isThinking ? { ...sampling, temperature: null, topP: null, topK: null } : sampling,
  })
}

/** Joins neighbouring turns of one role, keeps the last four cache points, and adds tools that were called. */
function withJoinedTurns(conversation: Conversation): Conversation {
  const turns: { role: 'user' | 'assistant' | 'system'; parts: Part[] }[] = []
  for (const { role, parts } of conversation.turns) {
    const last = turns.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else turns.push({ role, parts: [...parts] })
  }
  const hinted = turns.flatMap(({ parts }) => parts).filter(part => 'cache' in part)
  const dropped = new Set<Part>(hinted.slice(0, -4))
  const withoutCache = (part: Part) => {
    if (!dropped.has(part)) return part
    const { cache: _, ...rest } = part as Part & { cache?: string }
    return rest as Part
  }
  return { ...conversation, turns: turns.map(({ role, parts }) => ({ role, parts: parts.map(withoutCache) })) }
}

/** Without tools, the tools that were called are defined again, and no call is allowed. */
function withoutStubTools(conversation: Conversation, original: Conversation): Conversation {
  if (original.tools.length > 0) return conversation
  return { ...conversation, tools: [], toolChoice: null, parallelToolCalls: null }
}

describe('a conversation', () => {
  test('is the same after messages', () => {
    fc.assert(
      fc.property(arbitraryConversation(byMessages), conversation => {
        expect(withoutStubTools(throughMessages(conversation), conversation)).toEqual(asMessagesSay(conversation))
      }),
    )
  })

  test('is the same after chat', () => {
    fc.assert(
      fc.property(arbitraryConversation(byChat), conversation => {
        expect(throughChat(conversation)).toEqual(conversation)
      }),
    )
  })

  test('is the same after chat, messages and chat', () => {
    fc.assert(
      fc.property(arbitraryConversation(byBoth), conversation => {
        const there = throughMessages(throughChat(conversation), 'none')
        const back = throughChat(withoutStubTools(there, conversation))
        expect(withJoinedTurns(back)).toEqual({
          ...withJoinedTurns(conversation),
          reasoning: { effort: null, isShown: null },
        })
      }),
    )
  })

  test('keeps text, calls, ids, results and their order after messages, chat and messages', () => {
    fc.assert(
      fc.property(
        arbitraryConversation({ ...byMessages, mixedAssistantParts: false, resultMedia: false, resultErrors: false }),
        conversation => {
          const back = throughMessages(throughChat(throughMessages(conversation)))
          const expected = withoutHints(withJoinedTurns(conversation))
          expect(withoutHints(withJoinedTurns(back)).turns).toEqual(expected.turns)
          expect(back.system).toEqual(conversation.system)
        },
      ),
    )
  })

  test('is a valid request of messages', () => {
    fc.assert(
      fc.property(arbitraryConversation(byChat), conversation => {
        const body = conversationToMessages(conversation, {
          model: 'm',
          maxTokens: 100,
          stream: true,
          thinking: 'adaptive',
          takesSampling: true,
          caches: 'none',
        })
        const { facts } = parseMessagesRequest(Buffer.from(JSON.stringify(body)))
        expect(facts).toMatchObject({ model: 'm', maxTokens: 100, stream: true })
        expect(Buffer.byteLength(facts.promptText())).toBeGreaterThanOrEqual(facts.promptTextBytes)
      }),
    )
  })
})

/** Chat has no place for Anthropic's reasoning, cache points and failed results. */
function withoutHints(conversation: Conversation): Conversation {
  return {
    ...conversation,
    turns: conversation.turns.map(({ role, parts }) => ({
      role,
      parts: parts.flatMap((part): Part[] => {
        const { cache: _, ...rest } = part as Part & { cache?: string }
        if (rest.kind === 'reasoning') return []
        return [rest.kind === 'tool_result' ? { ...rest, isError: false } : (rest as Part)]
      }),
    })),
  }
}
