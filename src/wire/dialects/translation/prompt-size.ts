import type { Conversation, MediaSource, Part } from '../../../base/domain/conversation.ts'

const REQUEST_TOKENS = 64
const PART_TOKENS = 16
/** The same bounds as for chat: src/wire/dialects/chat/prompt-size.ts. */
const IMAGE_TOKENS = 2_048
const AUDIO_TOKENS_MIN = 64
const FILE_TOKENS_MIN = 2_048
const AUDIO_BYTES_PER_TOKEN = 16
const FILE_BYTES_PER_TOKEN = 4

/**
 * Returns an upper bound of the prompt's tokens without a tokenizer: no tokenizer produces more than one token per
 * byte of UTF-8. Media count flat or by size, seals by the text that they can hide.
 *
 * @returns `textBytes`: the bytes of the text that `conversationText` joins; part of the bound
 */
export function boundConversation(conversation: Conversation): {
  tokensBound: number
  textBytes: number
  mediaTokensBound: number
} {
  let textBytes = 0
  let sealBytes = 0
  let mediaTokensBound = 0
  let parts = conversation.system.length
  eachText(conversation, text => {
    textBytes += Buffer.byteLength(text)
  })
  const add = (part: Part) => {
    parts++
    mediaTokensBound += mediaTokens(part)
    if (part.kind === 'tool_result') part.content.forEach(add)
    if ((part.kind === 'reasoning' || part.kind === 'tool_call') && part.seal !== undefined) {
      sealBytes += Math.ceil((part.seal.data.length * 3) / 4)
    }
  }
  for (const turn of conversation.turns) turn.parts.forEach(add)
  return {
    tokensBound: textBytes + sealBytes + parts * PART_TOKENS + REQUEST_TOKENS + mediaTokensBound,
    textBytes,
    mediaTokensBound,
  }
}

/** Joins all text of the prompt, including the tools. */
export function conversationText(conversation: Conversation): string {
  const texts: string[] = []
  eachText(conversation, text => texts.push(text))
  return texts.join('\n')
}

function eachText({ system, turns, tools, outputFormat }: Conversation, visit: (text: string) => void): void {
  for (const { text } of system) visit(text)
  for (const { parts } of turns) for (const part of parts) eachPartText(part, visit)
  for (const tool of tools) visit(JSON.stringify(tool))
  if (outputFormat !== null) visit(JSON.stringify(outputFormat))
}

function eachPartText(part: Part, visit: (text: string) => void): void {
  switch (part.kind) {
    case 'text':
    case 'refusal':
    case 'reasoning':
      visit(part.text)
      return
    case 'tool_call':
      visit(part.namespace ?? '')
      visit(part.name)
      visit(part.arguments)
      return
    case 'tool_result':
      for (const content of part.content) eachPartText(content, visit)
      return
    case 'opaque':
      visit(JSON.stringify(part.json))
  }
}

/** Names media that a server fetches, in items that the gateway does not know. */
const MEDIA_REFERENCE = /"(?:image_url|file_url|file_id)":/g

function mediaTokens(part: Part): number {
  if (part.kind === 'opaque') return (JSON.stringify(part.json).match(MEDIA_REFERENCE)?.length ?? 0) * FILE_TOKENS_MIN
  if (part.kind === 'image') return IMAGE_TOKENS
  if (part.kind === 'audio') return AUDIO_TOKENS_MIN + Math.ceil(part.base64.length / AUDIO_BYTES_PER_TOKEN)
  return part.kind === 'document' ? FILE_TOKENS_MIN + Math.ceil(base64Length(part.source) / FILE_BYTES_PER_TOKEN) : 0
}

function base64Length(source: MediaSource): number {
  return 'base64' in source ? source.base64.length : 0
}
