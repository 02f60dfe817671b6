import { type ChatRequest, type FunctionTool, messageText } from './chat-request.ts'

/**
 * Returns the function that the demo calls, or null if it answers in text. It calls a function if a call is
 * required, or if calls are allowed and the last user message names the function (`get_weather`, or "get
 * weather"). After a tool result it always answers in text; otherwise it would call the function forever.
 */
export function chooseTool(request: Pick<ChatRequest, 'messages' | 'tools' | 'toolChoice'>): FunctionTool | null {
  const { mode, names } = request.toolChoice
  const lastRole = request.messages.at(-1)?.role
  if (mode === 'none' || lastRole === 'tool' || lastRole === 'function') return null
  const allowed = request.tools.filter(tool => names === null || names.includes(tool.name))
  const userMessage = request.messages.findLast(message => message.role === 'user')
  const words = asWords(messageText(userMessage?.content))
  const named = allowed.find(tool => words.includes(asWords(tool.name)))
  return named ?? (mode === 'required' ? (allowed[0] ?? null) : null)
}

/** Returns the text in lower case with one space around each word, so that a name matches only whole words. */
function asWords(text: string): string {
  return ` ${text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()} `
}
