import { t } from '@lingui/core/macro'
import { SegmentedControl } from '@mantine/core'
import { useState } from 'react'
import { CopyButton } from './CopyButton.tsx'
import styles from './parts.module.css'

export function CodeBlock({ code, what }: { code: string; what: string }) {
  return (
    <div className={styles.code}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a block that scrolls must be reachable by the keyboard */}
      <section tabIndex={0} aria-label={what}>
        <pre>{code}</pre>
      </section>
      <div className={styles.codeCopy}>
        <CopyButton text={code} what={what} />
      </div>
    </div>
  )
}

/** The same example in several languages. */
export function CodeTabs({ examples }: { examples: Readonly<Record<string, string>> }) {
  const names = Object.keys(examples)
  const [name, setName] = useState(names[0]!)
  return (
    <div style={{ display: 'grid', gap: 8, justifyItems: 'start', gridTemplateColumns: 'minmax(0, 1fr)' }}>
      <SegmentedControl data={names} value={name} onChange={setName} aria-label={t`Language`} />
      <div style={{ width: '100%' }}>
        <CodeBlock code={examples[name]!} what={t`the ${name} example`} />
      </div>
    </div>
  )
}
