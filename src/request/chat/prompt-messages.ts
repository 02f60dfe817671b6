import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { ContentMessage } from '../../base/domain/request-content.ts'

/**
 * Returns the messages of a prompt as text, the last ones if they are longer than `lengthMax` together. `isCut`: something
 * was left out.
 */
export function promptMessages(job: ChatJob, lengthMax: number): { messages: ContentMessage[]; isCut: boolean } {
  const messages: ContentMessage[] = []
  let left = lengthMax
  for (const message of messagesOf(job).toReversed()) {
    const text = message.text.slice(0, left)
    left -= text.length
    messages.unshift({ role: message.role, text })
    if (text.length < message.text.length || left === 0) return { messages, isCut: true }
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
