import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { modelsQuery } from '../../api/queries.ts'
import { CodeTabs } from '../../parts/CodeBlock.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { baseUrl, chatCode } from '../../parts/chat-code.ts'
import { Panel } from '../../parts/Panel.tsx'
import styles from './home.module.css'

/**
 * The base URL and a request in three languages. On a new customer's page it waits for the first request, which live updates
 * then show.
 */
export function FirstSteps({
  customerId,
  hasKey,
  mayKeys,
  isFolded = false,
}: {
  customerId: string
  hasKey: boolean
  mayKeys: boolean
  isFolded?: boolean
}) {
  const models = useQuery(modelsQuery(customerId))
  const [isOpen, setOpen] = useState(!isFolded)
  const chat = models.data?.data.find(({ features, demo }) => !demo && features.includes('chat'))
  const model = chat?.id ?? models.data?.data[0]?.id ?? 'demo'
  return (
    <Panel
      title={isFolded ? 'Use it in your program' : 'Send the first request'}
      aside={
        isFolded && (
          <Button variant="subtle" size="compact-sm" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Hide the code' : 'Show the code'}
          </Button>
        )
      }
    >
      <div className={styles.steps}>
        <p className={styles.baseUrl}>
          Base URL <code>{baseUrl()}</code> <CopyButton text={baseUrl()} what="the base URL" />
        </p>
        {isOpen && (
          <>
            {!hasKey && mayKeys && (
              <p>
                First{' '}
                <Link to="/c/$customerId/keys" params={{ customerId }} search={{ make: true } as never}>
                  make an API key
                </Link>
                . Then put it in place of YOUR_KEY.
              </p>
            )}
            <CodeTabs examples={chatCode({ model, messages: [{ role: 'user', content: 'Hello!' }] })} />
            {!isFolded && (
              <p className={styles.waiting} role="status">
                <span className={styles.pulse} aria-hidden="true" />
                Waiting for your first request. It appears here within seconds.
              </p>
            )}
          </>
        )}
      </div>
    </Panel>
  )
}
