import { t } from '@lingui/core/macro'
import { Select, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useState } from 'react'
import styles from './operator.module.css'

const TYPING_MS = 250

/** A text to search for. `search` follows it when the person pauses in typing. */
export function useSearchText(): { text: string; setText: (text: string) => void; search: string } {
  const [text, setText] = useState('')
  const [search] = useDebouncedValue(text.trim(), TYPING_MS)
  return { text, setText, search }
}

/** A search and one choice above a list. */
export function SearchFilters({
  search,
  choice,
}: {
  search: { readonly text: string; readonly setText: (text: string) => void; readonly description: string }
  choice: {
    readonly label: string
    readonly description: string
    readonly data: { readonly value: string; readonly label: string }[]
    readonly value: string
    readonly onChange: (value: string | null) => void
  }
}) {
  return (
    <section className={styles.filters} aria-label={t`Filters`}>
      <TextInput
        label={t`Search`}
        description={search.description}
        type="search"
        value={search.text}
        onChange={event => search.setText(event.currentTarget.value)}
      />
      <Select {...choice} />
    </section>
  )
}
