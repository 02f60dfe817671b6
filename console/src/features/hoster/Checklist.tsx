import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Verification } from '#api/hoster-verification.ts'
import { type OwnHoster, verificationQuery } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { useHosterRights } from '../../shell/use-hoster.ts'
import { problemText } from '../../texts/code-text.ts'
import styles from './hoster.module.css'

const PROBES = 3

/** The way to the first request. It follows the verification while that runs. */
export function Checklist({ hoster }: { hoster: OwnHoster }) {
  const verification = useQuery(verificationQuery(hoster.id))
  const { mayManage } = useHosterRights()
  const check = useWrite<void, Verification>(
    () => ({ method: 'POST', path: `hosters/${hoster.id}/verification`, body: {} }),
    {
      areas: ['hoster'],
      done: t`The check runs. This page shows what it finds.`,
    },
  )
  return (
    <Panel
      title={t`To the first request`}
      aside={
        verification.data?.checked_at && (
          <span className={styles.hint}>
            <Trans>
              checked <When at={verification.data.checked_at} form="distance" />
            </Trans>
          </span>
        )
      }
    >
      <Loaded query={verification} height={360}>
        {found => (
          <div className={styles.wide}>
            <Steps hoster={hoster} found={found} />
            {mayManage && (
              <div className={styles.buttons}>
                <Button onClick={() => check.mutate()} loading={check.isPending}>
                  {hoster.state === 'applied' ? t`Start the verification` : t`Check again`}
                </Button>
                <span className={styles.hint}>{t`Each answer of your server may take 30 seconds.`}</span>
              </div>
            )}
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

function Steps({ hoster, found }: { hoster: OwnHoster; found: Verification }) {
  const { transport, base_url: baseUrl } = hoster.endpoint
  const { challenge, manifest, prices, probes } = found
  const params = { hosterId: hoster.id }
  const passedProbes = probes.length > 0 && probes.every(({ passed }) => passed >= PROBES)
  return (
    <ol className={styles.steps}>
      {/* An agent that has connected with a key of the hoster is both: the way, and the proof. */}
      <Step title={t`A way to your server`} isDone={transport === 'direct' || challenge.passed}>
        <p className={styles.hint}>
          {transport === 'direct' ? (
            <code>{baseUrl}</code>
          ) : challenge.passed ? (
            t`Your agent has connected to the gateway.`
          ) : (
            t`Your agent has not connected yet.`
          )}
        </p>
      </Step>
      <Step title={t`Proof that the server is yours`} isDone={challenge.passed} problem={problemText(challenge)}>
        {!challenge.passed && <Challenge challenge={challenge} hosterId={hoster.id} />}
      </Step>
      <Step title={t`Models`} isDone={manifest.passed} problem={problemText(manifest)}>
        {!manifest.passed && (
          <p>
            <Link to="/h/$hosterId/offers" params={params}>{t`Enter models and prices`}</Link>
          </p>
        )}
      </Step>
      <Step title={t`Prices within the bounds of the operator`} isDone={prices.passed} problem={problemText(prices)} />
      <Step title={t`Three right answers in a row from each model`} isDone={passedProbes}>
        {probes.map(({ model, passed, ...found }) => (
          <p key={model} className={styles.hint}>
            <Trans>
              {model}: {passed} of {PROBES}
              {found.problem !== null && `, ${problemText(found)}`}
            </Trans>
          </p>
        ))}
      </Step>
      <Step title={t`Approval by the operator`} isDone={false}>
        {hoster.state === 'verified' && (
          <p className={styles.hint}>{t`It waits in the operator's queue. There is nothing more to do.`}</p>
        )}
      </Step>
    </ol>
  )
}

function Challenge({ challenge, hosterId }: { challenge: Verification['challenge']; hosterId: string }) {
  if (challenge.transport === 'agent') {
    return (
      <p>
        <Trans>
          <Link to="/h/$hosterId/connect" params={{ hosterId }}>
            Make a key and start the agent
          </Link>
          . It passes as soon as the agent connects.
        </Trans>
      </p>
    )
  }
  if (challenge.nonce === null || challenge.url === null)
    return <p className={styles.hint}>{t`Start the verification: it shows what to publish.`}</p>
  return (
    <>
      <p>
        <Trans>
          Publish this at <code>{challenge.url}</code>, or add a model with this text as its id to your list of models.
        </Trans>
      </p>
      <CodeBlock code={JSON.stringify({ challenge: challenge.nonce })} what={t`the challenge`} />
    </>
  )
}

function Step({
  title,
  isDone,
  problem = null,
  children,
}: {
  title: string
  isDone: boolean
  problem?: string | null
  children?: ReactNode
}) {
  return (
    <li className={styles.step}>
      <svg className={styles.stepMark} width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" fill="none">
        {isDone ? (
          <path d="m3 8 4 4 8-9" stroke="var(--ok)" strokeWidth="2" />
        ) : (
          <circle cx="9" cy="7" r="5" stroke="var(--control)" strokeWidth="1.5" />
        )}
      </svg>
      <div className={styles.stepBody}>
        <span className={styles.stepTitle}>
          {title}
          <span className="visually-hidden">{isDone ? t`: done` : t`: open`}</span>
        </span>
        {problem !== null && !isDone && (
          <div>
            <State state="warn">{t`not yet`}</State> {problem}
          </div>
        )}
        {children}
      </div>
    </li>
  )
}
