import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { modelsQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { answersChats } from '../../parts/answers-chats.ts'
import { CodeTabs } from '../../parts/CodeBlock.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { baseUrl, chatCode } from '../../parts/chat-code.ts'
import { Panel } from '../../parts/Panel.tsx'
import styles from './home.module.css'

/**
 * The base URL and a request in three languages. On a new customer's page it waits for the first request, which live
 * updates then show.
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
  const [secret, setSecret] = useState<string | null>(null)
  const make = useWrite<void, { key: string }>(
    () => ({
      method: 'POST',
      path: `customers/${customerId}/keys`,
      body: { name: hasKey ? t`quick start` : t`first key` },
    }),
    { areas: ['keys', 'key-spend'], onDone: ({ key }) => setSecret(key) },
  )
  const chatModels = models.data?.data.filter(answersChats) ?? []
  const model = (chatModels.find(({ demo }) => !demo) ?? chatModels[0])?.id ?? 'demo'
  return (
    <Panel
      title={isFolded ? t`Use it in your program` : t`Send the first request`}
      aside={
        isFolded && (
          <Button variant="subtle" size="compact-sm" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? t`Hide the code` : t`Show the code`}
          </Button>
        )
      }
    >
      <div className={styles.steps}>
        <p className={styles.baseUrl}>
          <Trans>
            Base URL <code>{baseUrl()}</code> <CopyButton text={baseUrl()} what={t`the base URL`} />
          </Trans>
        </p>
        {isOpen && (
          <>
            {secret === null && mayKeys && (
              <div className={styles.keyLine}>
                <p>
                  {hasKey
                    ? t`Put your API key in place of YOUR_KEY. It was shown once, when it was made.`
                    : t`A program needs an API key.`}
                </p>
                <Button variant="default" size="compact-md" loading={make.isPending} onClick={() => make.mutate()}>
                  {hasKey ? t`Make a new key for this code` : t`Make a key for this code`}
                </Button>
              </div>
            )}
            {secret !== null && (
              <p className={styles.baseUrl} role="status">
                <Trans>
                  Your key, which is shown only now: <code className={styles.secret}>{secret}</code>{' '}
                  <CopyButton text={secret} what={t`the key`} />
                </Trans>
              </p>
            )}
            <CodeTabs
              examples={chatCode({ model, messages: [{ role: 'user', content: t`Hello!` }] }, secret ?? undefined)}
            />
            {!isFolded && (
              <p className={styles.waiting} role="status">
                <Trans>
                  <span className={styles.pulse} aria-hidden="true" />
                  Waiting for your first request. It appears here within seconds.
                </Trans>
              </p>
            )}
          </>
        )}
      </div>
    </Panel>
  )
}
