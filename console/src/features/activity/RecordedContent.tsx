import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { contentQuery } from '../../api/queries.ts'
import { countText } from '../../format/number-text.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import styles from './activity.module.css'

/** What was recorded of a request. It is loaded on request only, because each look of an operator is noted. */
export function RecordedContent({ requestId }: { requestId: string }) {
  const [isShown, setShown] = useState(false)
  const { seesKeys } = useRights()
  if (!seesKeys) return null
  return (
    <section>
      <h3>{t`Prompt and answer`}</h3>
      {isShown ? (
        <Content requestId={requestId} />
      ) : (
        <Button variant="default" onClick={() => setShown(true)}>
          {t`Show what was recorded`}
        </Button>
      )}
    </section>
  )
}

function Content({ requestId }: { requestId: string }) {
  const content = useQuery(contentQuery(useCustomerId(), requestId))
  return (
    <Loaded query={content} height={120}>
      {({ messages, answer, redactions, is_cut: isCut }) => (
        <>
          {[...messages, { role: t`answer`, text: answer }].map(({ role, text }, index) => (
            <div key={`${index} ${role}`} className={styles.message}>
              <span className={styles.hint}>{role}</span>
              <pre>{text}</pre>
            </div>
          ))}
          <p
            className={styles.hint}
          >{t`Credentials and personal data that were taken out: ${countText(redactions)}`}</p>
          {isCut && <p className={styles.hint}>{t`A part was too long and is left out.`}</p>}
        </>
      )}
    </Loaded>
  )
}
