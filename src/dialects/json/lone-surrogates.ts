/** Whether a body of JSON in UTF-8 has the escape of a surrogate: without it there is none that lacks its other half. */
export function mayHaveLoneSurrogates(body: Buffer): boolean {
  return body.includes('\\ud', 0, 'latin1') || body.includes('\\uD', 0, 'latin1')
}

/**
 * Puts U+FFFD for each half of a surrogate pair that lacks the other, in all texts and names inside of `value`. Clients that cut a text in the middle of an
 * emoji send such halves, again with each later turn. JSON allows them, and DeepSeek, OpenAI and Anthropic refuse them (cherry-studio pull request
 * 20614, opencode pull request 17758); llama.cpp answers 500 (Marinara-Engine issue 3596), so that one conversation would eject its servers.
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
