import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { ContentMessage, RedactableText } from '../../base/domain/request-content.ts'

/** A message of a prompt, with what is kept of its text. */
type PromptMessage = ContentMessage & RedactableText

/**
 * Returns the messages of a prompt as text, and marks the last `lengthMax` units of them together as kept. Those that are left out
 * are missing. `isCut`: something is left out.
 */
export function promptMessages(job: ChatJob, lengthMax: number): { messages: PromptMessage[]; isCut: boolean } {
  const messages: PromptMessage[] = []
  let left = lengthMax
  for (const { role, text } of messagesOf(job).toReversed()) {
    const length = Math.min(text.length, left)
    if (length === 0 && text !== '') return { messages, isCut: true }
    left -= length
    messages.unshift({ role, text, length })
    if (length < text.length) return { messages, isCut: true }
  }
  return { messages, isCut: false }
}

function messagesOf(job: ChatJob): ContentMessage[] {
  const { messages } = job.forward
  // Other tasks, and requests that only servers of their dialect can serve, have no messages of chat.
  if (!Array.isArray(messages)) return [{ role: 'user', text: job.promptText() }]
  return messages.map((message: ChatMessage) => ({
    role: typeof message.role === 'string' ? message.role : 'user',
    text: [textOf(message.content), ...(message.tool_calls ?? []).map(callText)].filter(text => text !== '').join('\n'),
  }))
}

/** A message that the dialect has checked. */
interface ChatMessage {
  readonly role?: unknown
  readonly content?: unknown
  readonly tool_calls?: readonly {
    readonly function?: { readonly name?: string; readonly arguments?: string } | null
  }[]
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: { readonly type?: string; readonly text?: unknown }) =>
      typeof part.text === 'string' ? part.text : `[${part.type ?? 'part'}]`,
    )
    .join('\n')
}

const callText = ({ function: called }: NonNullable<ChatMessage['tool_calls']>[number]) =>
  called == null ? '[tool call]' : `[${called.name ?? 'tool'}(${called.arguments ?? ''})]`
