import { t } from '@lingui/core/macro'

const browsers = ['Firefox', 'Edg', 'OPR', 'Chrome', 'Safari'] as const
const systems = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS X', 'Linux'] as const
const words: Readonly<Record<string, string>> = { Edg: t`Edge`, OPR: t`Opera`, 'Mac OS X': t`macOS` }

/** "Firefox, Linux" of a User-Agent header. */
export function browserName(userAgent: string): string {
  const found = [browsers, systems].flatMap(names => names.filter(name => userAgent.includes(name)).slice(0, 1))
  return found.length === 0 ? userAgent.slice(0, 40) || t`unknown` : found.map(name => words[name] ?? name).join(', ')
}
