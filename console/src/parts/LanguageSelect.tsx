import { t } from '@lingui/core/macro'
import { NativeSelect } from '@mantine/core'
import { chooseLanguage, languages } from '../texts/choose-language.ts'
import { language } from '../texts/i18n.ts'

/** Chooses the language of the console. Each has its own name for itself, so that everyone finds theirs. */
export function LanguageSelect() {
  return (
    <NativeSelect
      aria-label={t`Language`}
      data={languages}
      value={language}
      onChange={event => chooseLanguage(event.currentTarget.value)}
    />
  )
}
