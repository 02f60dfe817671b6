import { redact } from '@arcjet/redact'
import { lintSource } from '@secretlint/core'
import { creator } from '@secretlint/secretlint-rule-preset-recommend'

/** Keys of this gateway, of customers, hosters and operators: see identity/auth/api-key.ts. */
const OWN_KEYS = /\b[hos]k-sy-[0-9A-Za-z]{16,64}/g

/**
 * Replaces what looks like a credential or like personal data. `redactions`: how many pieces. Takes about 2 ms for 1,000
 * words, and may take long for a text that is made for it: call it on a thread that can be ended.
 */
export async function redactText(text: string): Promise<{ readonly text: string; readonly redactions: number }> {
  const { text: open, redactions } = await withoutCredentials(text)
  let personal = 0
  const [redacted] = await redact(open, {
    entities: ['email', 'phone-number', 'ip-address', 'credit-card-number'],
    replace(entity) {
      personal++
      return words[entity as keyof typeof words]
    },
  })
  return { text: redacted, redactions: redactions + personal }
}

const words = {
  email: '[EMAIL]',
  'phone-number': '[PHONE]',
  'ip-address': '[IP]',
  'credit-card-number': '[CARD]',
} as const

const rules = [
  {
    id: '@secretlint/secretlint-rule-preset-recommend',
    rule: creator,
    rules: [{ id: '@secretlint/secretlint-rule-aws', options: { enableIDScanRule: true } }],
  },
]

async function withoutCredentials(text: string): Promise<{ text: string; redactions: number }> {
  const { messages } = await lintSource({
    source: { content: text, filePath: 'text.txt', ext: '.txt', contentType: 'text' },
    options: { noPhysicFilePath: true, config: { rules } },
  })
  const own = [...text.matchAll(OWN_KEYS)].map(match => [match.index, match.index + match[0].length] as const)
  const ranges = [...messages.map(({ range }) => range), ...own].toSorted(([a], [b]) => a - b)
  let redacted = ''
  let end = 0
  let redactions = 0
  for (const [from, to] of ranges) {
    if (from >= end) {
      redacted += `${text.slice(end, from)}[CREDENTIAL]`
      redactions++
    }
    end = Math.max(end, to)
  }
  return { text: redacted + text.slice(end), redactions }
}
