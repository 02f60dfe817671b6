import { type ChatRequest, type FunctionTool, messageText } from './chat-request.ts'

/**
 * The function the demo calls, or null when it answers in text. It calls one when a call is demanded, or when it may and
 * the last user message names it (`get_weather`, also written "get weather"). After a tool result it always answers in
 * text: a model without a mind would otherwise call for ever.
 */
export function chooseTool(request: Pick<ChatRequest, 'messages' | 'tools' | 'toolChoice'>): FunctionTool | null {
  const { mode, names } = request.toolChoice
  const lastRole = request.messages.at(-1)!.role
  if (mode === 'none' || lastRole === 'tool' || lastRole === 'function') return null
  const allowed = request.tools.filter(tool => names === null || names.includes(tool.name))
  const asked = request.messages.findLast(message => message.role === 'user')
  const wish = asWords(messageText(asked?.content))
  const named = allowed.find(tool => wish.includes(asWords(tool.name)))
  return named ?? (mode === 'required' ? (allowed[0] ?? null) : null)
}

/** Lower case, one space around each word: a name then matches whole words only. */
function asWords(text: string): string {
  return ` ${text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()} `
}
