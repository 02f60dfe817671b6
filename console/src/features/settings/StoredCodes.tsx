import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useEffect, useRef } from 'react'
import { CodeBlock } from '../../parts/CodeBlock.tsx'

/** Recovery codes, which are shown once. */
export function StoredCodes({ codes, onStored }: { codes: readonly string[]; onStored: () => void }) {
  const first = useRef<HTMLParagraphElement>(null)
  // The form that they replace was longer, so they may be above what is seen.
  useEffect(() => {
    first.current?.scrollIntoView({ block: 'center' })
  }, [])
  return (
    <>
      <p
        ref={first}
      >{t`Store these recovery codes. Each works once if you lose your phone. They are not shown again.`}</p>
      <CodeBlock code={codes.join('\n')} what={t`the recovery codes`} />
      <div>
        <Button onClick={onStored}>{t`I have stored them`}</Button>
      </div>
    </>
  )
}
