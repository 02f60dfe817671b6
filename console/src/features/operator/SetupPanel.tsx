import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { SetupReport, SetupTest } from '#api/operator/setup.ts'
import { setupQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { saidText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { useMayOperate } from './use-may-operate.ts'

type Step = SetupReport['steps'][number]

const HIDDEN = 'switchyard-setup-hidden'

/** What a new gateway still needs. It leaves when all is done, or when the operator hides it in this browser. */
export function SetupPanel() {
  const { data } = useQuery(setupQuery)
  const [isHidden, setHidden] = useState(() => localStorage.getItem(HIDDEN) !== null)
  if (data === undefined || data.steps.every(({ is_done }) => is_done)) return null
  const hide = () => {
    localStorage.setItem(HIDDEN, '1')
    setHidden(true)
  }
  const show = () => {
    localStorage.removeItem(HIDDEN)
    setHidden(false)
  }
  if (isHidden) {
    return (
      <div>
        <Button variant="subtle" size="compact-sm" onClick={show}>
          {texts.show}
        </Button>
      </div>
    )
  }
  return (
    <Panel
      title={texts.title}
      aside={
        <Button variant="subtle" size="compact-sm" onClick={hide}>
          {texts.hide}
        </Button>
      }
    >
      <ul className={styles.setup}>
        {data.steps.map(step => (
          <li key={step.step}>
            <SetupStep step={step} file={data.config_file} />
          </li>
        ))}
      </ul>
    </Panel>
  )
}

function SetupStep({ step: { step, is_done, link, has_test, snippet, ...found }, file }: { step: Step; file: string }) {
  const mayOperate = useMayOperate()
  const test = useWrite<void, SetupTest>(
    () => ({ method: 'POST', path: `operator/setup/${step === 'mail' ? 'mail' : 'payments'}-test`, body: {} }),
    { areas: [] },
  )
  return (
    <>
      <h3 className={styles.setupName}>
        {texts.names[step]} <State state={is_done ? 'ok' : 'warn'}>{is_done ? texts.done : texts.open}</State>
      </h3>
      <p>{saidText(found.detail, found.detail_codes)}</p>
      {found.todo !== null && <p className={styles.hint}>{saidText(found.todo, found.todo_codes)}</p>}
      {snippet !== null && (
        <details>
          <summary>{texts.example}</summary>
          <p className={styles.hint}>{texts.where(file)}</p>
          <CodeBlock code={snippet} what={texts.example} />
        </details>
      )}
      <div className={styles.buttons}>
        {!is_done && link !== null && <a href={link}>{texts.links[step]}</a>}
        {has_test && mayOperate && (
          <Button variant="default" size="compact-sm" loading={test.isPending} onClick={() => test.mutate()}>
            {step === 'mail' ? texts.testMail : texts.testPayments}
          </Button>
        )}
      </div>
      <p role="status" className={styles.hint}>
        {test.data !== undefined && (
          <>
            <State state={test.data.is_working ? 'ok' : 'danger'}>
              {test.data.is_working ? texts.works : texts.fails}
            </State>{' '}
            {saidText(test.data.detail, test.data.detail_codes)}
          </>
        )}
      </p>
    </>
  )
}

const texts = {
  title: t`Set up this gateway`,
  hide: t`Hide`,
  show: t`Show what is left to set up`,
  example: t`Example for the file`,
  where: (file: string) => t`Add it to ${file} on the host of the gateway, then restart the gateway.`,
  done: t`done`,
  open: t`to do`,
  names: { mail: t`Mail`, payments: t`Payments`, provider: t`A provider`, backups: t`Backups`, tls: t`TLS` },
  links: { mail: '', payments: t`Make vouchers`, provider: t`Add a provider`, backups: '', tls: '' },
  testMail: t`Send me a test mail`,
  testPayments: t`Ask the payment services`,
  works: t`works`,
  fails: t`does not work`,
} as const
