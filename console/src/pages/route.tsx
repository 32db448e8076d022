import type { JSX } from 'preact';
import { useCell } from '../cell';
import { duration, number } from '../format';
import { link, place } from '../place';
import { Empty, ErrorBox, Page, Section } from '../ui';
import { RequestPlots, useHistory, useStatus } from './overview';
import type { Percentiles } from '../types';

export function PercentileList({ of }: { of: Percentiles }): JSX.Element {
  const rows: [string, number][] = [['p50', of.p50_us], ['p90', of.p90_us], ['p99', of.p99_us], ['p99.9', of.p99_9_us], ['max', of.max_us]];
  return (
    <dl class="figures">
      {rows.map(([name, us]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{duration(of.count > 0 ? us : null)}</dd>
        </div>
      ))}
    </dl>
  );
}

export function RoutePage(): JSX.Element {
  const name = useCell(place).path[1] ?? '';
  const status = useStatus();
  const history = useHistory();
  const route = status.data?.routes.find((each) => each.route === name);
  const past = history.data?.routes.find((each) => each.route === name);
  return (
    <Page
      title={name}
      about={<a href={link(['overview'])}>Routes</a>}
      actions={
        <a class="button" href={link(['requests'], { route: name })}>
          Record its requests
        </a>
      }
    >
      <ErrorBox error={status.error ?? history.error} />
      {past ? (
        <div class="plots">
          <RequestPlots at={history.data?.at_ms ?? []} of={past} times="Response time" />
        </div>
      ) : (
        history.data && <Empty title="No requests in the last hour">The plots show the 100 busiest routes.</Empty>
      )}
      {route ? (
        <Section title="Since the start of the server">
          <dl class="figures">
            {Object.entries(route.requests).map(([kind, count]) => (
              <div key={kind}>
                <dt>{kind}</dt>
                <dd class={kind === '5xx' && count > 0 ? 'bad' : ''}>{number(count)}</dd>
              </div>
            ))}
          </dl>
          <PercentileList of={route.duration} />
        </Section>
      ) : (
        status.data && <Empty title="This server has no such route">It may have gone with a reload. <a href={link(['overview'])}>All routes</a></Empty>
      )}
    </Page>
  );
}
