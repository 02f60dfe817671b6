/**
 * Whether a JSON body in UTF-8 contains an escaped surrogate. A body without one cannot contain a lone
 * surrogate.
 */
export function mayHaveLoneSurrogates(body: Buffer): boolean {
  return body.includes('\\ud', 0, 'latin1') || body.includes('\\uD', 0, 'latin1')
}

/**
 * Replaces each lone surrogate with U+FFFD, in every text and name inside `value`. Clients that cut a text in
 * the middle of an emoji send one, and repeat it with each later turn. JSON allows it, but DeepSeek, OpenAI
 * and Anthropic reject it (cherry-studio pull request 20614, opencode pull request 17758), and llama.cpp
 * answers 500 (Marinara-Engine issue 3596), so that one conversation would eject its servers.
 */
export function replaceLoneSurrogates(value: object): void {
  const inner = value as Record<string, unknown>
  for (const key of Object.keys(inner)) {
    const child = inner[key]
    if (typeof child === 'string') {
      if (!child.isWellFormed()) inner[key] = child.toWellFormed()
    } else if (typeof child === 'object' && child !== null) {
      replaceLoneSurrogates(child)
    }
    if (!key.isWellFormed()) {
      inner[key.toWellFormed()] = inner[key]
      delete inner[key]
    }
  }
}
