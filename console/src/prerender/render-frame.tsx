import { t } from '@lingui/core/macro'
import type { RegisteredRouter } from '@tanstack/react-router'
import { renderToStaticMarkup } from 'react-dom/server'
import { Page } from '../parts/Page.tsx'
import { AccountRow } from '../shell/AccountRow.tsx'
import { Frame, type PageLink, TopAmount } from '../shell/Frame.tsx'
import { accountItems, customerItems, hosterItems, operatorItems } from '../shell/nav-items.tsx'
import { SwitcherRow } from '../shell/SwitcherRow.tsx'
import styles from '../shell/shell.module.css'
import type { ScreenAddress, ScreenPage } from './screens.ts'

export { screens } from './screens.ts'

type WithoutSlash<Path extends string> = Path extends `${infer Start}/` ? (Start extends '' ? '/' : Start) : Path
type Address = WithoutSlash<keyof RegisteredRouter['routesByPath'] & string>

/** An address of router.tsx without a screen, or a screen without an address, is a type error that names it. */
const undrawn: Record<Exclude<Address, ScreenAddress> | Exclude<ScreenAddress, Address>, never> = {}
void undrawn

/**
 * Draws what a screen shows without any data: navigation and title. A browser paints it before the scripts have run,
 * and the scripts replace it by the screen. Assistive technology and the pointer get the screen only.
 */
export function renderFrame({ path, title }: ScreenPage): string {
  if (title === null) return ''
  const { kind, items, amount } = shells.find(({ isShellOf }) => isShellOf(path))!
  const StaticLink: PageLink = ({ to, isExact, className, children }) => (
    // biome-ignore lint/a11y/useValidAnchor: nobody can follow it
    <a className={className} data-status={isAt(path, to, isExact) ? 'active' : undefined}>
      {children}
    </a>
  )
  return renderToStaticMarkup(
    <div inert aria-hidden="true" aria-busy="true">
      <Frame
        items={items}
        PageLink={StaticLink}
        switcher={
          <div className={styles.switcher}>
            <SwitcherRow kind={kind} name="" />
          </div>
        }
        account={
          <div className={styles.account}>
            <AccountRow name="" />
          </div>
        }
        top={amount !== null && <span className={styles.topBalance}>{<TopAmount name={amount}>…</TopAmount>}</span>}
      >
        <div role="status" />
        <main>
          <Page title={title}>{null}</Page>
        </main>
      </Frame>
    </div>,
  )
}

const shells = [
  { isShellOf: (path: string) => path.startsWith('/c/'), kind: t`Customer`, items: customerItems, amount: t`Balance` },
  { isShellOf: (path: string) => path.startsWith('/h/$'), kind: t`Hoster`, items: hosterItems, amount: t`Payable` },
  { isShellOf: (path: string) => path.startsWith('/operator'), kind: t`Operator`, items: operatorItems, amount: null },
  { isShellOf: () => true, kind: t`Go to`, items: accountItems, amount: null },
] as const

function isAt(path: string, to: string, isExact = false): boolean {
  return to !== '/' && (path === to || (!isExact && path.startsWith(`${to}/`)))
}
