import { language } from './i18n.ts'

/** The languages that the console has, each with its own name for itself. */
export const languages = import.meta.env.LANGUAGES.map(value => ({
  value,
  label: new Intl.DisplayNames(value, { type: 'language' }).of(value) ?? value,
}))

/** Keeps the choice, and loads the page again in that language. The gateway reads the cookie; see page-language.ts. */
export function chooseLanguage(chosen: string): void {
  if (chosen === language) return
  const isSecure = location.protocol === 'https:'
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API needs TLS, which a gateway at home may not have
  document.cookie = `sy_language=${chosen}; path=/; max-age=31536000; samesite=lax${isSecure ? '; secure' : ''}`
  location.reload()
}
