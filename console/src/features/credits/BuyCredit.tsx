import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { paymentOptionsQuery } from '../../api/queries.ts'
import { chargeText } from '../../format/usd-text.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useRights, useSession } from '../../shell/use-session.ts'
import { AddCreditDialog } from './AddCreditDialog.tsx'
import styles from './credits.module.css'
import { readCreditsSearch } from './credits-search.ts'
import { RedeemDialog } from './RedeemDialog.tsx'
import { TopUps } from './TopUps.tsx'

/** How credit is bought here, and the payments so far. */
export function BuyCredit({ customerId }: { customerId: string }) {
  const options = useQuery(paymentOptionsQuery(customerId))
  const { mayCredits } = useRights()
  const isOperator = useSession().person.role === 'operator'
  const search = readCreditsSearch(useSearch({ strict: false }))
  const navigate = useNavigate()
  const [open, setOpen] = useState<'add' | 'redeem' | null>(search.add ? 'add' : null)
  // The link in the header may be followed on this page, too.
  useEffect(() => {
    if (search.add) setOpen('add')
  }, [search.add])
  const close = () => {
    setOpen(null)
    if (search.add) void navigate({ to: '/c/$customerId/credits', params: { customerId }, search: {}, replace: true })
  }
  return (
    <Panel title={t`Add credit`}>
      <Loaded query={options} height={80}>
        {({ drivers, min_usd, max_usd, debt_usd }) => {
          const paid = drivers.filter(driver => driver !== 'voucher')
          return (
            <>
              {debt_usd > 0 && (
                <p role="alert" className={styles.debt}>
                  <Trans>
                    {chargeText(debt_usd)} USD are owed for payments that were taken back. Requests are refused until
                    new credit has paid the debt.
                  </Trans>
                </p>
              )}
              {isOperator && (
                <p>{t`You are an operator of this gateway: grant the credit, with a reason that the statement shows.`}</p>
              )}
              {paid.length === 0 && !isOperator && (
                <p>
                  <Trans>
                    Credit cannot be bought here: this gateway takes no payments online. Ask the person who runs it for
                    credit, with the amount and this reference: <code>{customerId}</code>{' '}
                    <CopyButton text={customerId} what={t`the reference`} />
                  </Trans>
                </p>
              )}
              <div className={styles.buttons}>
                {isOperator && (
                  <Button
                    renderRoot={props => (
                      <Link
                        {...props}
                        to="/operator/customers/$customerId"
                        params={{ customerId }}
                        search={{ grant: true }}
                      />
                    )}
                  >{t`Grant credit`}</Button>
                )}
                {paid.length > 0 && (
                  <Button
                    variant={isOperator ? 'default' : 'filled'}
                    disabled={!mayCredits}
                    onClick={() => setOpen('add')}
                  >{t`Add credit`}</Button>
                )}
                <Button
                  variant="default"
                  disabled={!mayCredits}
                  onClick={() => setOpen('redeem')}
                >{t`Redeem a code`}</Button>
              </div>
              {!mayCredits && !isOperator && (
                <p className={styles.hint}>{t`Only an owner or a person with the role billing adds credit.`}</p>
              )}
              {open === 'add' && mayCredits && paid.length > 0 && (
                <AddCreditDialog customerId={customerId} drivers={paid} limits={{ min_usd, max_usd }} onClose={close} />
              )}
              {open === 'redeem' && <RedeemDialog customerId={customerId} onClose={() => setOpen(null)} />}
            </>
          )
        }}
      </Loaded>
      <TopUps customerId={customerId} mayCancel={mayCredits} />
    </Panel>
  )
}
